"""Grids on a dask cluster: the records of a local grid, even if workers die."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.research.backends.grids import assert_records, execute, tiny_grid
from tests.runs import Stop
from upcl.core.errors import UserError
from upcl.research.backends import ExecutorOptions, dask_cluster, make_backend
from upcl.research.executor import run_grid
from upcl.research.grid import GridRun, prepare

psutil = pytest.importorskip("psutil")
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # of dask, about ports and event loops
]


def busy_workers() -> list[int]:
    """Processes of dask that execute a run at the moment."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "upcl.research.worker" in process.cmdline():
                found.append(process.ppid())
        except psutil.Error:
            continue
    return found


def test_runs_on_three_workers_one_of_which_is_killed_twice(tmp_path: Path) -> None:
    grid = tiny_grid(["finetune", "icarl", "upcl"], [0, 1])
    killed: list[int] = []

    def kill(runs: Sequence[GridRun]) -> None:
        done = sum(run.status == "done" for run in runs)
        if len(killed) < 2 and done >= 2 * len(killed) and (workers := busy_workers()):
            os.kill(workers[0], signal.SIGKILL)
            killed.append(workers[0])

    runs = execute(grid, ExecutorOptions(tmp_path, jobs=3, device="cpu", on="dask"), kill)
    assert len(runs) == 6 and len(killed) == 2
    assert_records(runs, tmp_path)
    assert not list(tmp_path.glob(".shared-*")), "the marker is removed"


def test_without_a_shared_folder_the_records_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def nowhere(_: ExecutorOptions) -> Iterator[Path]:
        yield tmp_path / "not" / "here"

    monkeypatch.setattr(dask_cluster, "folder_marker", nowhere)
    runs = execute(tiny_grid(["icarl"], [0, 1]), ExecutorOptions(tmp_path / "runs", 2, "cpu", on="dask"))
    assert_records(runs, tmp_path / "runs")
    assert all((run.folder / "sketch.npz").is_file() for run in runs)


def test_failures_and_interrupts(tmp_path: Path) -> None:
    (failed,) = execute(
        tiny_grid(["finetune"], [0], options={"recipe.lr": 1e30}), ExecutorOptions(tmp_path / "a", 1, "cpu", on="dask")
    )
    assert failed.status == "failed" and "lower learning rate" in failed.error

    def interrupt(runs: Sequence[GridRun]) -> None:
        if runs[0].share > 0:
            raise Stop

    options = ExecutorOptions(tmp_path / "b", 1, "cpu", on="dask")
    runs = prepare(tiny_grid(["finetune"], [0, 1], epochs=100_000), options.out, None)
    with pytest.raises(Stop):
        run_grid(runs, options, interrupt)
    assert [run.status for run in runs] == ["stopped", "stopped"] and busy_workers() == []


def test_a_scheduler_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "CONNECT_SECONDS", 1)
    options = ExecutorOptions(tmp_path, on="dask", scheduler="tcp://127.0.0.1:9")
    with pytest.raises(UserError, match=r"no dask scheduler answers at tcp://127\.0\.0\.1:9"), make_backend(options):
        pass


def test_a_scheduler_of_others_is_used_and_gpus_are_a_resource(tmp_path: Path) -> None:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, resources={"GPU": 1}
    ) as cluster:
        options = ExecutorOptions(tmp_path, device="cpu", on="dask", scheduler=cluster.scheduler_address, gpus=1)
        runs = execute(tiny_grid(["finetune"], [0]), options)
    assert_records(runs, tmp_path)
