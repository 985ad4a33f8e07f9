"""Write docs/results.md: from the records in results/, and from the quick experiments, with figures.

    make results                      # from records alone, without training
    make results DATA=builtin         # also run the quick experiments on built-in data: an hour and a quarter
    make results DATA=cifar100        # and five of them on CIFAR-100 (in UPCL_DATA): as long again

Finished runs of quick experiments (in runs/results) are not repeated; interrupted ones are resumed. Further runs at
full data are made by `upcl reproduce NAME --scale cpu --out results`, which resumes and skips what is finished; git
keeps their records.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from upcl import Request
from upcl.research.paper import experiments
from upcl.research.paper.experiments import Experiment
from upcl.research.paper.reproduce import Reproduction
from upcl.research.record import Record
from upcl.research.report.compose import report_on_experiment
from upcl.research.report.content import Report
from upcl.research.report.cost_tables import cost_table
from upcl.research.report.formats import as_markdown
from upcl.research.report.load import StoredRun, read_runs
from upcl.research.report.tables import (
    Table,
    comparability_notes,
    count_cell,
    estimate_cell,
    group_by_method,
    mean_over_runs,
    text_cell,
)
from upcl.research.report.write import write_figures
from upcl.research.statistics import paired_difference
from upcl.training.evaluate import READINGS

ROOT = Path(__file__).parents[1]
PAGE, FIGURES = ROOT / "docs" / "results.md", ROOT / "docs" / "results"
ON_CIFAR100 = ("ablation", "lambda", "imbalance", "confusion", "tsne")
FIRST = (*ON_CIFAR100, "uniformity", "table1", "memory")
RESULTS = ROOT / "results"
RECORDS, ALL_METHODS, EQUAL_MEMORY = (RESULTS / name for name in ("runs", "all-methods", "equal-memory"))
STREAMS = {
    "tinyimagenet": "Tiny-ImageNet slice: 200 classes, 50 images each, 32 pixels, 10 tasks, 500 exemplars",
    "longtail": "Long-tailed CIFAR-100: 500 to 5 images per class, 10 tasks, 500 exemplars",
}
LEADER = "UPCL+"
TOTAL_MEMORY = 10_000_000  # of the runs in EQUAL_MEMORY
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
FULL_BEGIN, FULL_END = "<!-- full data: begin -->", "<!-- full data: end -->"
STREAMS_BEGIN, STREAMS_END = "<!-- other streams: begin -->", "<!-- other streams: end -->"
SMALL_BEGIN, SMALL_END = "<!-- all methods: begin -->", "<!-- all methods: end -->"


def quick_chapter(experiment: Experiment, out: Path) -> Iterator[str]:
    """Markdown about a quick experiment that has been run.

    Args:
        experiment: the experiment.
        out: folder of its results.
    """
    reproduction = Reproduction.prepare(experiment, out)
    reproduction.measure()
    report = reproduction.report()
    assert report, f"{experiment.name} has not been run"
    yield from chapter(experiment, report, experiment.section_keys)


def stored_chapter(experiment: Experiment) -> Iterator[str]:
    """Markdown about an experiment at full data, from the records of its finished runs; nothing if there are none.

    Args:
        experiment: the experiment.
    """
    assert experiment.grid
    wanted = {_key(job.request) for job in experiment.grid.jobs}
    runs = [run for run in read_runs([RECORDS]) if run.record.finished and _run_key(run) in wanted]
    if runs:
        note = f"{len(runs)} of {len(wanted)} runs so far" if len(runs) < len(wanted) else f"{len(runs)} runs"
        report = report_on_experiment(experiment, runs, notes=[note])
        yield from chapter(experiment, report, (*experiment.section_keys, "table"))


def _key(request: Request) -> tuple[object, ...]:
    lambda_1 = str(request.options.get("lambda_1", ""))
    data, _, tasks = str(request.data).partition("/T")
    return request.method_name, data, int(tasks or 0), request.seed, request.order_seed, request.memory, lambda_1


def _run_key(run: StoredRun) -> tuple[object, ...]:
    record, config = run.record, run.record.config
    lambda_1 = str(config.options.get("lambda_1", "")) if config.options.get("lambda_1", "1/2^t") != "1/2^t" else ""
    return record.method, record.data, len(record.task_sizes), record.seed, record.order_seed, config.memory, lambda_1


def chapter(experiment: Experiment, report: Report, keys: Sequence[str]) -> Iterator[str]:
    """Markdown about an experiment; its figures are written to files next to the page.

    Args:
        experiment: the experiment.
        report: the report on it.
        keys: which sections to show.
    """
    yield f"## {experiment.title}: `{experiment.name}`, {experiment.scale}\n"
    yield from (f"{sentence}  " for sentence in report.summary)
    yield ""
    for section in report.sections:
        if re.sub(r"^s\d+-", "", section.key) not in keys:
            continue
        yield from (as_markdown(table) for table in section.tables)
        folder = FIGURES / f"{experiment.name}-{experiment.scale}"
        for path in write_figures(Report(report.title, (), (section,)), folder, "png"):
            yield f"![{section.title}]({path.relative_to(PAGE.parent).as_posix()})\n"


def write_full_data() -> None:
    """Replace the part of the page about all images of CIFAR-100, from the records."""
    chapters = ["\n".join(stored_chapter(experiments.load(name, "cpu"))) for name in experiments.names_with("cpu")]
    _replace(FULL_BEGIN, FULL_END, [text for text in chapters if text])


def write_all_methods() -> None:
    """Replace the tables of all methods on the small stream, from their records."""
    alike = _finished(ALL_METHODS)
    within = _finished(EQUAL_MEMORY)
    within += [record for record in alike if record.method not in {other.method for other in within}]
    tables = (
        (cost_table("At equal exemplars", alike), alike),
        (cost_table("At equal total memory", within, "memory", TOTAL_MEMORY), within),
    )
    texts = []
    for table, records in tables:
        assert table
        texts.append(as_markdown(replace(table, notes=(*table.notes, *comparability_notes(records)))))
    _replace(SMALL_BEGIN, SMALL_END, texts)


def write_streams() -> None:
    """Replace the tables of UPCL+ and its rivals on other streams, from their records."""
    found = {title: _finished(RESULTS / name) for name, title in STREAMS.items() if (RESULTS / name).is_dir()}
    _replace(STREAMS_BEGIN, STREAMS_END, [as_markdown(lead_table(title, found[title])) for title in found])


def lead_table(title: str, records: Sequence[Record]) -> Table:
    """A table of methods by A_last, each with the paired lead of UPCL+ over it.

    Args:
        title: what the table is about.
        records: finished runs of UPCL+ and others.
    """
    groups, rows = group_by_method(records), []
    for name in sorted(groups, key=lambda name: -fmean(run.a_last.head or 0.0 for run in groups[name])):
        runs, cells = groups[name], [text_cell(name)]
        cells += [estimate_cell(mean_over_runs(runs, "a_last", reading)) for reading in READINGS]
        for reading in READINGS:
            lead = None if name == LEADER else paired_difference(groups[LEADER], runs, "a_last", reading)
            cells.append(estimate_cell(lead.difference if lead else None))
        rows.append((*cells, count_cell(len(runs)), count_cell(round(fmean(sum(run.seconds) for run in runs)))))
    columns = [f"A_last {reading}" for reading in READINGS]
    columns += [f"{LEADER} minus it, {reading}" for reading in READINGS]
    note = "Mean ± standard deviation over runs, and the 95 % confidence interval; differences are paired by seed."
    return Table(title, ("method", *columns, "runs", "seconds"), tuple(rows), (note, *comparability_notes(records)))


def _finished(folder: Path) -> list[Record]:
    return [run.record for run in read_runs([folder]) if run.record.finished]


def write_quick(out: Path, on_cifar100: tuple[str, ...]) -> None:
    """Run the quick experiments and replace their part of the page.

    Args:
        out: folder of the results.
        on_cifar100: experiments that are also run on CIFAR-100.
    """
    names = [*FIRST, *(name for name in experiments.names() if name not in FIRST)]
    chapters = []
    for name in names:
        for data in ("builtin", "cifar100") if name in on_cifar100 else ("builtin",):
            words = ["reproduce", name, "--data", data, "--out", str(out), "--jobs", "2"]
            subprocess.run([sys.executable, "-m", "upcl", *words], check=True)
            chapters.append("\n".join(quick_chapter(experiments.load(name, data=data), out)))
    _replace(BEGIN, END, chapters)


def _replace(begin: str, end: str, chapters: list[str]) -> None:
    before, found, rest = PAGE.read_text().partition(begin)
    assert found, f"{PAGE.name} has no {begin}"
    PAGE.write_text("\n".join([before + begin, *chapters, end + rest.partition(end)[2]]))


if __name__ == "__main__":
    write_full_data()
    write_streams()
    write_all_methods()
    if sys.argv[1:]:
        write_quick(ROOT / "runs" / "results", ON_CIFAR100 if "cifar100" in sys.argv[1:] else ())
