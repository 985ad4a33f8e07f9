from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.runs import Stop
from upcl.core.lease import hold_lease
from upcl.research import executor
from upcl.research.backends import ExecutorOptions
from upcl.research.backends.local import LocalRun
from upcl.research.executor import finished_share, run_grid
from upcl.research.grid import Grid, GridRun, make_grid, prepare
from upcl.research.run import run

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
    assert [each.status for each in runs] == ["done", "failed", "done"]
    assert all(each.record and each.record.finished for each in (runs[0], runs[2]))
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/record.json")}
    assert len(written) == 2
    again = execute(grid, tmp_path)
    assert [each.status for each in again] == ["done before", "failed", "done before"]
    assert {path: path.stat().st_mtime_ns for path in written} == written
    assert not list(tmp_path.rglob("*.yaml")), "requests are handed over, not written"


def test_error_of_a_failed_run_names_its_last_output_and_log(tmp_path: Path) -> None:
    (failed,) = execute(tiny_grid(["upcl"], options={"recipe.lr": 1e30}), tmp_path)
    assert failed.status == "failed"
    assert failed.error.startswith("exit code 1: ")
    assert "lower the learning rate" in failed.error and ".log" in failed.error


def test_interrupted_grid_stops_its_runs_and_continues_to_the_same_weights(tmp_path: Path) -> None:
    grid = tiny_grid(["finetune", "upcl"], epochs=90)
    reference = [run(job.request, device="cpu").weights_sha256 for job in grid.jobs]
    runs = prepare(grid, tmp_path / "interrupted", None)

    def interrupt(runs: list[GridRun]) -> None:
        if any(each.share > 0 for each in runs):
            raise Stop

    with pytest.raises(Stop):
        run_grid(runs, ExecutorOptions(tmp_path / "interrupted", 2, "cpu"), interrupt)  # type: ignore[arg-type]
    assert [each.status for each in runs] == ["stopped", "stopped"]
    for each in runs:
        assert isinstance(each.handle, LocalRun) and each.handle.process.returncode is not None, "none is left behind"
    resumed = [each.record for each in execute(grid, tmp_path / "interrupted", jobs=2)]
    assert [record.weights_sha256 for record in resumed if record] == reference


def test_finished_share_follows_the_events(tmp_path: Path) -> None:
    (waiting,) = prepare(tiny_grid(["upcl"], epochs=4), tmp_path, None)
    config = waiting.config
    assert config
    assert finished_share(tmp_path, config) == 0
    for line, share in (
        ('{"task": 0, "epoch": 1}', 0.25),
        ('{"task": 1, "epoch": 1}', 0.75),
        ('{"task": 1, "epoch": 3}', 1.0),
    ):
        (tmp_path / "events.jsonl").write_text(f"{line}\n")
        assert finished_share(tmp_path, config) == pytest.approx(share)
    (tmp_path / "events.jsonl").write_text('{"task": 1, "ep')
    assert finished_share(tmp_path, config) == 0


def test_a_run_of_another_grid_is_waited_for_and_not_trained_twice(tmp_path: Path) -> None:
    grid = tiny_grid(["finetune"])
    (mine,) = prepare(grid, tmp_path, None)
    mine.folder.mkdir(parents=True)
    seen: list[str] = []
    with ExitStack() as other:
        other.enter_context(hold_lease(mine.folder, busy="in use"))

        def watch(runs: Sequence[GridRun]) -> None:
            seen.append(runs[0].status)
            if len(seen) == 4:
                other.close()  # the other grid gives it up

        run_grid([mine], ExecutorOptions(tmp_path, 1, "cpu"), watch)
    assert seen[:4] == ["waiting"] * 4 and mine.status == "done"


def test_two_grids_on_one_folder_train_every_run_once(tmp_path: Path) -> None:
    grid = tiny_grid(["finetune", "icarl", "upcl"])
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda _: execute(grid, tmp_path, jobs=2), range(2)))
    for runs in both:
        assert all(each.status in ("done", "done before") for each in runs), [each.error for each in runs]
    for each in both[0]:
        events = (each.folder / "events.jsonl").read_text().splitlines()
        assert len(events) == 4, "two tasks of two epochs, each trained once"


def test_a_claim_that_nobody_renews_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "STALE_SECONDS", 0.0)
    (mine,) = prepare(tiny_grid(["finetune"]), tmp_path, None)
    mine.folder.mkdir(parents=True)
    values = {"token": "old", "host": "another", "pid": 1, "started": "1", "name": "another"}
    (mine.folder / ".lease").write_text(f"{7:020d}\n{json.dumps(values)}\n")
    assert not executor._is_claimed(mine)
