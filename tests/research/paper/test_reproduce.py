from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from upcl.core.progress import report_progress
from upcl.research.grid import make_grid
from upcl.research.paper import experiments
from upcl.research.paper.experiments import Experiment, PublishedReference, UniformityPlan
from upcl.research.paper.reproduce import Reproduction, runs_folder
from upcl.research.run import run


@pytest.fixture
def experiment() -> Experiment:
    """Two rows of the ablation on tiny data."""
    same = {"data": "synthetic:classes=4,train=8,test=4", "tasks": 2, "epochs": 1, "memory": "4"}
    grid = make_grid({"same": same, "vary": {"method": ["cos", "up+dm"]}}, "tiny.yaml")
    published = PublishedReference("ablation")
    return dataclasses.replace(experiments.load("ablation"), name="tiny", grid=grid, published=published)


def test_finished_runs_are_reported_with_the_papers_figures(experiment: Experiment, tmp_path: Path) -> None:
    prepared = Reproduction.prepare(experiment, tmp_path)
    assert [each.status for each in prepared.runs] == ["waiting", "waiting"]
    assert prepared.report() is None
    run(prepared.runs[1].job.request, out=prepared.runs[1].folder)

    again = Reproduction.prepare(experiment, tmp_path)
    assert [each.status for each in again.runs] == ["waiting", "done before"]
    assert again.runs[1].folder.parent == runs_folder(tmp_path)
    report = again.report()
    assert report is not None
    assert report.summary[-1] == "1 of 2 runs are missing because they failed"
    row = dict(zip(report.tables[0].columns, report.tables[0].rows[0], strict=True))
    assert row["method"].text == "+UP+DM (UPCL)" and row["paper A_last"].value == 51.78


def test_measurements_report_progress_and_are_kept(tmp_path: Path) -> None:
    experiment = dataclasses.replace(experiments.load("uniformity"), uniformity=UniformityPlan(16, (4, 8), 2, 1))
    progress: list[int] = []

    @contextmanager
    def reporter(description: str, total: int | None, completed: int, unit: str) -> Iterator[object]:
        assert (description, total, completed, unit) == ("measuring prototypes", 8, 0, "items")
        yield progress.append

    reproduction = Reproduction.prepare(experiment, tmp_path)
    with report_progress(reporter):  # type: ignore[arg-type]
        reproduction.measure()
    assert progress == [1] * 8
    assert (tmp_path / "uniformity-quick.jsonl").is_file()
    report = reproduction.report()
    assert report and [section.key for section in report.sections] == ["uniformity"]
    assert report.summary[-1].endswith("16 dimensions, 2 draws per generator (1 for minimum energy).")


def test_experiment_without_prototypes_measures_nothing(experiment: Experiment, tmp_path: Path) -> None:
    reproduction = Reproduction(experiment, tmp_path)
    reproduction.measure()
    assert reproduction.measurements == [] and list(tmp_path.iterdir()) == []


def test_paths_are_named_after_experiment_and_scale(experiment: Experiment, tmp_path: Path) -> None:
    reproduction = Reproduction(experiment, tmp_path)
    assert reproduction.path("html") == tmp_path / "tiny-quick.html"
    assert reproduction.path("svg") == tmp_path / "tiny-quick"
