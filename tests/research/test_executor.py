from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runs import Stop
from upcl.research.executor import ExecutorOptions, finished_share, run_grid
from upcl.research.grid import Grid, GridRun, make_grid, prepare

TINY: dict[str, Any] = {"data": "synthetic:classes=4,train=8,test=4", "tasks": 2, "epochs": 2, "memory": "4"}


def tiny_grid(methods: list[str], **same: Any) -> Grid:
    return make_grid({"same": {**TINY, **same}, "vary": {"method": methods}}, "tiny")


def execute(grid: Grid, out: Path, jobs: int = 1) -> list[GridRun]:
    runs = prepare(grid, out, None)
    run_grid(runs, ExecutorOptions(out, jobs, "cpu"), lambda _: None)
    return runs


def test_finished_runs_are_skipped_and_failures_do_not_stop_others(tmp_path: Path) -> None:
    grid = tiny_grid(["finetune", "nosuch", "upcl"])
    runs = execute(grid, tmp_path, jobs=2)
    assert [run.status for run in runs] == ["done", "failed", "done"]
    assert all(run.record and run.record.finished for run in (runs[0], runs[2]))
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/record.json")}
    assert len(written) == 2
    again = execute(grid, tmp_path)
    assert [run.status for run in again] == ["done before", "failed", "done before"]
    assert {path: path.stat().st_mtime_ns for path in written} == written
    assert not list(tmp_path.rglob("*.yaml")), "requests are handed over, not written"


def test_error_of_a_failed_run_names_its_last_output_and_log(tmp_path: Path) -> None:
    (run,) = execute(tiny_grid(["upcl"], options={"recipe.lr": 1e30}), tmp_path)
    assert run.status == "failed"
    assert run.error.startswith("exit code 1: ")
    assert "lower the learning rate" in run.error and ".log" in run.error


def test_interrupted_grid_stops_its_runs_and_continues_to_the_same_weights(tmp_path: Path) -> None:
    grid = tiny_grid(["finetune", "upcl"], epochs=40)
    reference = [run.record for run in execute(grid, tmp_path / "reference", jobs=2)]
    runs = prepare(grid, tmp_path / "interrupted", None)

    def interrupt(runs: list[GridRun]) -> None:
        if runs[0].share > 0:
            raise Stop

    with pytest.raises(Stop):
        run_grid(runs, ExecutorOptions(tmp_path / "interrupted", 1, "cpu"), interrupt)  # type: ignore[arg-type]
    assert [run.status for run in runs] == ["stopped", "waiting"]
    process = runs[0].process
    assert process and process.returncode is not None, "no process is left behind"
    resumed = [run.record for run in execute(grid, tmp_path / "interrupted", jobs=2)]
    assert [r.weights_sha256 for r in resumed if r] == [r.weights_sha256 for r in reference if r]
    assert len([r for r in resumed if r]) == 2


def test_finished_share_follows_the_events(tmp_path: Path) -> None:
    (run,) = prepare(tiny_grid(["upcl"], epochs=4), tmp_path, None)
    assert run.config
    assert finished_share(tmp_path, run.config) == 0
    for line, share in (
        ('{"task": 0, "epoch": 1}', 0.25),
        ('{"task": 1, "epoch": 1}', 0.75),
        ('{"task": 1, "epoch": 3}', 1.0),
    ):
        (tmp_path / "events.jsonl").write_text(f"{line}\n")
        assert finished_share(tmp_path, run.config) == pytest.approx(share)
    (tmp_path / "events.jsonl").write_text('{"task": 1, "ep')
    assert finished_share(tmp_path, run.config) == 0
