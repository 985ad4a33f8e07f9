"""A few tiny finished runs that tests of statistics and reports share."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.runs import STREAM, quick_run
from upcl.data import load_dataset
from upcl.research.record import Record
from upcl.research.report.compose import report_on_runs
from upcl.research.report.content import Report
from upcl.research.report.load import StoredRun, read_runs

HOSTILE_NAME = "<script>window.evil = 1</script>"


@pytest.fixture(scope="session")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """iCaRL and UPCL with two seeds each; the name of one class is a script, that of the data set needs escaping."""
    folder = tmp_path_factory.mktemp("runs")
    data = load_dataset(STREAM)
    data = dataclasses.replace(data, classes=(HOSTILE_NAME, *data.classes[1:]), name="evil & co")
    for method in ("icarl", "upcl"):
        for seed in (0, 1):
            quick_run(method, data, seed=seed, out=folder / f"{method}-{seed}")
    return folder


@pytest.fixture
def stored_runs(runs_folder: Path) -> list[StoredRun]:
    """iCaRL with seeds 0 and 1, then UPCL with seeds 0 and 1."""
    return read_runs([runs_folder])


@pytest.fixture
def records(stored_runs: list[StoredRun]) -> list[Record]:
    return [run.record for run in stored_runs]


@pytest.fixture(scope="session")
def report(runs_folder: Path) -> Report:
    return report_on_runs(read_runs([runs_folder]))
