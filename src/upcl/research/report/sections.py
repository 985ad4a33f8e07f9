"""The sections of a report on the runs of one setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from upcl.research.paper.experiments import Experiment

from . import comparisons, cost_tables, figures, memory_tables, panels, tables
from .charts import Chart
from .content import Section
from .figures import RunGroups, group_stored_runs
from .galleries import MAX_CLASSES, describe_run, error_gallery, exemplar_gallery, find_illustrated_run
from .load import StoredRun
from .rerun import train_command

MAX_FEATURE_MAPS = 8  # each takes seconds
BAND = "Line: mean over seeds; band: range over seeds."
FIRST_SEED = "First seed of each method."


def make_sections(
    name: str,
    runs: Sequence[StoredRun],
    experiment: Experiment | None = None,
    notes: Sequence[str] = (),
    *,
    only_tables: bool = False,
    equal: cost_tables.Equal = "exemplars",
    budget: int | None = None,
) -> Iterator[Section]:
    """Make all sections about runs on the same data with the same split into tasks.

    Args:
        name: what to call the setting.
        runs: the runs; unfinished ones are left out if any is finished.
        experiment: the experiment that they belong to.
        notes: sentences for the notes of the results.
        only_tables: leave out figures and images.
        equal: at what methods are compared in the table of memory.
        budget: total bytes for which it counts exemplars.

    Example:
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> record = run(Request(method="finetune", data="synthetic:classes=2,train=2,test=2", tasks=1, epochs=1))
        >>> [section.key for section in make_sections("tiny", [StoredRun(Path("runs"), record)])][:3]
        ['table', 'accuracy', 'old-new']
    """
    finished = [run for run in runs if run.record.finished]
    skipped = [run for run in runs if not run.record.finished] if finished else []
    notes = [*notes, *(f"left out because it is not finished: {describe_run(run)}" for run in skipped)]
    shown = finished or list(runs)
    yield from _table_sections(name, shown, experiment, notes)
    if only_tables:
        yield from _metric_sections(name, shown, equal, budget)
        return
    groups, topics = group_stored_runs(shown), experiment.topics if experiment else ()
    yield from _curve_sections(groups, with_imbalance="imbalance" in topics)
    yield from _metric_sections(name, shown, equal, budget)
    yield from _panel_sections(groups, all_maps="tsne" in topics)
    yield from _gallery_sections(groups)
    yield _command_section(shown)


def _table_sections(
    name: str, runs: Sequence[StoredRun], experiment: Experiment | None, notes: Sequence[str]
) -> Iterator[Section]:
    records = [run.record for run in runs]
    published = experiment.published if experiment else None
    found = [tables.results_table(f"Results: {name}", records, published, notes)]
    if experiment and experiment.contributions:
        found.append(comparisons.contribution_table(records, experiment.contributions))
    if paired := comparisons.paired_table(records):
        found.append(paired)
    description = (
        "head: the classifier; nme: nearest mean of exemplars; both: the two together. Click a column header to sort."
    )
    if published:
        description += " The paper's figures are compared with the head."
    yield Section("table", "Results", description, tuple(found))
    if experiment and "memory" in experiment.topics:
        charts = tuple(figures.accuracy_by_memory(tables.group_by_method(records)))
        table = memory_tables.memory_table(f"By memory size: {name}", records, published, notes)
        yield Section("memory", "Accuracy by memory size", "Band: range over seeds.", (table,), charts)


def _metric_sections(
    name: str, runs: Sequence[StoredRun], equal: cost_tables.Equal, budget: int | None
) -> Iterator[Section]:
    records = [run.record for run in runs]
    made = (
        cost_tables.cost_table(f"Memory: {name}", records, equal, budget),
        cost_tables.area_table(f"Accuracy over total memory: {name}", records),
        cost_tables.metrics_table(f"Further metrics: {name}", records),
    )
    if found := tuple(table for table in made if table):
        description = "What is kept, and what else papers report; the documentation defines each figure (metrics.md)."
        yield Section("metrics", "Memory and further metrics", description, found)


def _curve_sections(groups: RunGroups, *, with_imbalance: bool) -> Iterator[Section]:
    if with_imbalance:
        charts = tuple(figures.imbalance(groups))
        yield Section("imbalance", "Imbalance and accuracy", f"The paper's Figure 1. {BAND}", charts=charts)
    made = (
        ("accuracy", "Accuracy", BAND, figures.accuracy),
        ("old-new", "Old and new classes", f"After each task, among all classes seen. {BAND}", figures.old_and_new),
        (
            "ratio",
            "Imbalance",
            "Training images of the largest class divided by those of the smallest.",
            figures.imbalance_ratio,
        ),
        (
            "coherence",
            "Coherence",
            "0: orthogonal. Fixed prototypes remain so; learned class vectors may not.",
            figures.coherence,
        ),
        (
            "cost",
            "Time and memory",
            "Time and peak memory as measured, which depend on the machine; and what is kept between tasks.",
            figures.time_and_memory,
        ),
    )
    for key, title, description, make in made:
        if charts := tuple(make(groups)):
            yield Section(key, title, description, charts=charts)


def _panel_sections(groups: RunGroups, *, all_maps: bool) -> Iterator[Section]:
    mapped = groups if all_maps else dict(list(groups.items())[:MAX_FEATURE_MAPS])
    limit = f" The first {len(mapped)} of {len(groups)} configurations." if len(mapped) < len(groups) else ""
    made: tuple[tuple[str, str, str, Iterator[Chart]], ...] = (
        (
            "confusion",
            "Confusion",
            "Percent of each class after the last task; rules separate tasks.",
            panels.confusion(groups),
        ),
        (
            "matrix",
            "Accuracy matrix",
            "Accuracy of the head on the classes of each task after each task, mean over seeds.",
            panels.accuracy_matrix(groups),
        ),
        (
            "forgetting",
            "Forgetting by class",
            f"Best accuracy before the last task minus final accuracy. {FIRST_SEED}",
            panels.forgetting(groups),
        ),
        (
            "tsne",
            "Feature map",
            f"t-SNE of test features and class vectors of the head, normalised. {FIRST_SEED}{limit}",
            panels.feature_map(mapped),
        ),
        ("losses", "Losses", f"Loss terms by epoch; dotted: end of a task. {FIRST_SEED}", panels.losses(groups)),
        (
            "assignment",
            "Assignment",
            f"Does it settle early? Classes whose prototype is not that of the previous epoch. {FIRST_SEED}",
            panels.assignment(groups),
        ),
    )
    for key, title, description, drawn in made:
        if charts := tuple(drawn):
            yield Section(key, title, description, charts=charts)


def _gallery_sections(groups: RunGroups) -> Iterator[Section]:
    """Exemplars and errors of one run."""
    run = find_illustrated_run(groups)
    if run is None:
        return
    gallery, num_classes = exemplar_gallery(run)
    if gallery.rows:
        limit = f" The first {MAX_CLASSES} classes." if num_classes > MAX_CLASSES else ""
        description = f"Some of the stored images. {describe_run(run)}.{limit}"
        yield Section("exemplars", "Exemplars", description, galleries=(gallery,))
    gallery = error_gallery(run)
    if gallery.rows:
        description = f"Test images of the pairs of classes that are confused most often. {describe_run(run)}."
        yield Section("errors", "Most frequent confusions", description, galleries=(gallery,))


def _command_section(runs: Sequence[StoredRun]) -> Section:
    return Section(
        "runs",
        "Commands and fingerprints",
        "Each command repeats its run, if data set and method are available by name. Fingerprints: SHA-256 of the full "
        "config, of the learned weights and of the data.",
        commands=tuple((train_command(run.record), _fingerprints(run)) for run in runs),
    )


def _fingerprints(run: StoredRun) -> str:
    record = run.record
    torch, device, threads = (record.environment.get(key, "?") for key in ("torch", "device", "threads"))
    return (
        f"config {record.config_digest[:16]}, weights {record.weights_sha256[:16]}, "
        f"data {record.config.data_sha256[:16]}, torch {torch}, {device}, {threads} threads"
    )
