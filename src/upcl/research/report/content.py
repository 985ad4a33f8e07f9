"""What a report says, in order: tables, figures and pictures of runs, with a sentence to each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from upcl.data.io.images import data_url
from upcl.research.paper.experiments import Experiment
from upcl.research.paper.uniformity import Distance
from upcl.research.report import figures, tables
from upcl.research.statistics import by_setting, title_of

from .charts import Chart
from .figures import Lines, lines_of
from .load import StoredRun
from .rerun import command_of
from .tables import Table

MAPPED = 8  # lines of which a feature map is made: each takes seconds
GALLERY_CLASSES = 40


@dataclass(frozen=True)
class Picture:
    """A small image as a data address, with words for those who do not see it."""

    source: str
    words: str


@dataclass(frozen=True)
class Gallery:
    """Rows of pictures, each with a name."""

    rows: tuple[tuple[str, tuple[Picture, ...]], ...]


@dataclass(frozen=True)
class Section:
    """One thing to look at."""

    key: str
    title: str
    about: str
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    galleries: tuple[Gallery, ...] = ()
    lines: tuple[tuple[str, str], ...] = ()
    chapter: str = ""


@dataclass(frozen=True)
class Content:
    """A whole report."""

    title: str
    about: tuple[str, ...]
    sections: tuple[Section, ...]

    @property
    def chapters(self) -> list[tuple[str, list[Section]]]:
        """The sections by the setting that they are about."""
        return [(name, list(group)) for name, group in groupby(self.sections, key=lambda section: section.chapter)]

    @property
    def tables(self) -> list[Table]:
        return [table for section in self.sections for table in section.tables]

    @property
    def charts(self) -> list[Chart]:
        return [chart for section in self.sections for chart in section.charts]


def of_runs(
    runs: Sequence[StoredRun], title: str = "Runs", notes: Sequence[str] = (), *, only_tables: bool = False
) -> Content:
    """A report on any runs, one chapter for each data set and split into tasks."""
    return Content(title, (_counted(runs), *notes), tuple(_chapters(runs, None, only_tables)))


def of_experiment(
    asked: Experiment, runs: Sequence[StoredRun], distances: Sequence[Distance] = (), notes: Sequence[str] = ()
) -> Content:
    """The report on one experiment of the paper: what it is about first."""
    about = [f"The paper claims: {asked.claim}", *_settings(asked, runs)]
    about += [f"Of the paper's own figures: {remark}." for remark in asked.remarks()]
    sections = list(_chapters(runs, asked))
    if distances:
        chart = tuple(figures.uniformity(distances))
        sections.insert(0, Section("uniformity", "Uniformity", "Line: mean over draws; band: their range.", (), chart))
    if asked.scale != "full":
        sections = [_stamped(section, asked.scale) for section in sections]
    return Content(asked.title, (*about, *notes), tuple(sections))


def _stamped(section: Section, scale: str) -> Section:
    """With the scale in each figure's title: it may travel alone."""
    charts = (dataclasses.replace(chart, title=f"{chart.title} ({scale})") for chart in section.charts)
    return dataclasses.replace(section, charts=tuple(charts))


def _settings(asked: Experiment, runs: Sequence[StoredRun]) -> list[str]:
    """Theirs and ours, in sentences."""
    ours = [setting_of(some) for _, some in _by_setting(runs)]
    if asked.prototypes:
        told = asked.prototypes
        ours.append(f"{told.dim} dimensions, {told.draws} draws of each ({told.energy_draws} of minimum energy).")
    if asked.scale != "full":
        ours = [f"Shrunk ({asked.scale}), NOT the paper's setting: {told}" for told in ours]
    return [f"The paper's setting: {asked.setting}.", *(f"Ours: {told}" for told in ours)]


def _counted(runs: Sequence[StoredRun]) -> str:
    seeds = sorted({run.record.seed for run in runs})
    return f"{len(runs)} runs; seeds {', '.join(map(str, seeds))}."


def setting_of(runs: Sequence[StoredRun]) -> str:
    """What these runs share, in a sentence; what differs is in the tables' notes."""
    configs = [run.record.config for run in runs]
    first = configs[0]
    epochs = [(config.recipes.first.epochs, config.recipes.later.epochs) for config in configs]

    def shared(values: Sequence[object], told: str) -> str:
        return told if all(value == values[0] for value in values) else ""

    parts = [
        f"{first.data}, {len(first.task_sizes)} tasks",
        shared([c.memory for c in configs], f"memory {first.memory}"),
        shared([c.backbone for c in configs], f"backbone {first.backbone}"),
        shared(epochs, f"{' and then '.join(map(str, dict.fromkeys(epochs[0])))} epochs a task"),
        shared([c.protocol for c in configs], f"protocol {first.protocol}"),
        f"seeds {', '.join(map(str, sorted({c.seed for c in configs})))}",
        f"class orders {', '.join(map(str, sorted({c.order_seed for c in configs})))}",
    ]
    return ", ".join(part for part in parts if part) + "."


def _by_setting(runs: Sequence[StoredRun]) -> Iterator[tuple[str, list[StoredRun]]]:
    by_id = {id(run.record): run for run in runs}
    for name, records in by_setting([run.record for run in runs]).items():
        yield name, [by_id[id(record)] for record in records]


def _chapters(runs: Sequence[StoredRun], asked: Experiment | None, only_tables: bool = False) -> Iterator[Section]:
    """The sections of each setting; what the experiment is about comes first. Unfinished runs stay out if they can."""
    chapters = list(_by_setting(runs))
    for place, (name, some) in enumerate(chapters):
        prefix = f"s{place + 1}-" if len(chapters) > 1 else ""
        finished = [run for run in some if run.record.finished]
        left_out = [run for run in some if not run.record.finished] if finished else []
        made = list(_sections(name, finished or some, left_out, asked, only_tables))
        order = [*(asked.sections if asked else ()), *(section.key for section in made)]
        for section in sorted(made, key=lambda section: order.index(section.key)):
            yield dataclasses.replace(
                section,
                key=prefix + section.key,
                chapter=name if prefix else "",
                charts=tuple(dataclasses.replace(chart, key=prefix + chart.key) for chart in section.charts),
            )


def _sections(
    name: str,
    runs: Sequence[StoredRun],
    left_out: Sequence[StoredRun],
    asked: Experiment | None,
    only_tables: bool,
) -> Iterator[Section]:
    lines, records = lines_of(runs), [run.record for run in runs]
    shows = asked.shows if asked else ()
    beside = asked.beside if asked else None
    said = _settings(asked, runs) if asked and beside else []
    said += [f"left out, not finished: {title_of(run.record)}, seed {run.record.seed}" for run in left_out]
    found = [tables.results(f"Results: {name}", records, beside, said)]
    found += [tables.adds(records, asked.adds)] if asked and asked.adds else []
    found += [table for table in [tables.pairs(records)] if table]
    about = "head: the classifier; nme: nearest mean of exemplars. Click on a column to sort."
    if beside:
        about += " The paper's figures are compared with the head."
    yield Section("table", "Results", about, tuple(found))
    if "memory" in shows:
        methods = tables.by_method(records)
        chart = tuple(figures.over_memory(methods))
        table = tables.delta(f"By memory: {name}", records, beside, said)
        yield Section("memory", "Accuracy over memory", "Band: lowest to highest seed.", (table,), chart)
    if only_tables:
        return
    yield from _curves(lines, imbalance_first="imbalance" in shows)
    yield from _panels(lines, all_maps="tsne" in shows)
    yield from _pictures(lines)
    yield Section(
        "runs",
        "Commands and fingerprints",
        "Each command makes its run again, where the data and the method can be named; the digest is that of the whole "
        "config, the weights' that of what was learned.",
        lines=tuple(
            (
                command_of(run.record),
                f"config {run.record.config_digest[:16]}, weights {run.record.weights_sha256[:16]}, "
                f"data {run.record.config.data_sha256[:16]}, torch {run.record.environment['torch']}, "
                f"{run.record.environment['device']}, {run.record.environment['threads']} threads",
            )
            for run in runs
        ),
    )


def _curves(lines: Lines, *, imbalance_first: bool) -> Iterator[Section]:
    band = "Line: mean over seeds; band: lowest to highest seed."
    if imbalance_first:
        about = f"The paper's Figure 1. {band}"
        yield Section("imbalance", "Imbalance and accuracy", about, charts=tuple(figures.imbalance(lines)))
    made = (
        ("accuracy", "Accuracy", band, figures.accuracy),
        ("old-new", "Old and new classes", f"After each task, all classes seen compete. {band}", figures.old_and_new),
        ("ratio", "Imbalance", "Images of the largest over those of the smallest class in training.", figures.ratio),
        ("coherence", "Coherence", "0: orthogonal. Fixed prototypes stay so; learned ones may not.", figures.coherence),
        ("cost", "Time and memory", "As measured; it depends on the machine.", figures.time_and_memory),
    )
    for key, title, about, make in made:
        if charts := tuple(make(lines)):
            yield Section(key, title, about, charts=charts)


def _panels(lines: Lines, *, all_maps: bool) -> Iterator[Section]:
    few = lines if all_maps else dict(list(lines.items())[:MAPPED])
    left = f" The first {MAPPED} of {len(lines)} lines." if len(few) < len(lines) else ""
    one = "The first seed of each line."
    made: tuple[tuple[str, str, str, Iterator[Chart]], ...] = (
        (
            "confusion",
            "Confusion",
            "Percent of each class after the last task; lines: borders of tasks.",
            figures.confusion(lines),
        ),
        (
            "matrix",
            "Accuracy matrix",
            "Head, mean over seeds: classes of each task after each task.",
            figures.matrix(lines),
        ),
        (
            "forgetting",
            "Forgetting by class",
            f"Best accuracy before the last task minus accuracy now. {one}",
            figures.forgetting(lines),
        ),
        (
            "tsne",
            "Feature map",
            f"t-SNE of test features and the head's vectors, at length one. {one}{left}",
            figures.feature_map(few),
        ),
        ("losses", "Losses", f"Terms by epoch; dotted: a task ends. {one}", figures.losses(lines)),
        (
            "assignment",
            "Assignment",
            f"Does it settle early? Classes that own another prototype than an epoch before. {one}",
            figures.assignment(lines),
        ),
    )
    for key, title, about, drawn in made:
        if charts := tuple(drawn):
            yield Section(key, title, about, charts=charts)


def _pictures(lines: Lines) -> Iterator[Section]:
    """Exemplars and errors of one run: UPCL's if there is one."""
    runs = [run for some in lines.values() for run in some if run.sketch is not None]
    best = [run for run in runs if run.record.method in tables.REFERENCE]
    for run in (best or runs[-1:])[:1]:
        drawn, classes = run.sketch, run.record.classes
        assert drawn is not None
        who = f"{title_of(run.record)}, seed {run.record.seed}"
        labels = drawn["exemplar_labels"].tolist()
        shown = dict.fromkeys(labels)
        few = set(list(shown)[:GALLERY_CLASSES])
        kept = [pair for pair in zip(labels, drawn["exemplars"], strict=True) if pair[0] in few]
        rows = tuple(
            (classes[label], tuple(picture(image, f"exemplar of {classes[label]}") for _, image in group))
            for label, group in groupby(kept, key=lambda pair: pair[0])
        )
        if rows:
            told = f" The first {GALLERY_CLASSES} classes." if len(shown) > GALLERY_CLASSES else ""
            about = f"Some of the images that are kept. {who}.{told}"
            yield Section("exemplars", "Exemplars", about, galleries=(Gallery(rows),))
        pairs = zip(drawn["error_labels"].tolist(), drawn["error_taken"].tolist(), drawn["errors"], strict=True)
        wrong = tuple(
            (
                f"{classes[label]} taken for {classes[taken]}",
                tuple(picture(image, f"{classes[label]} taken for {classes[taken]}") for *_, image in group),
            )
            for (label, taken), group in groupby(pairs, key=lambda triple: triple[:2])
        )
        if wrong:
            about = f"Test images of the pairs of classes that are confused most often. {who}."
            yield Section("errors", "Most confused", about, galleries=(Gallery(wrong),))


def picture(image: np.ndarray, words: str) -> Picture:
    """A uint8 image (C x H x W) with its description."""
    return Picture(data_url(image), words)
