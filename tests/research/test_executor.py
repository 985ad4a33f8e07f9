from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.runs import Stop
from upcl.research.config import Request
from upcl.research.executor import ExecutorOptions, finished_share, run_grid
from upcl.research.grid import Grid, GridRun, make_grid, prepare
from upcl.research.worker import WorkerJob, start_worker

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


def test_worker_exits_when_its_parent_is_killed(tmp_path: Path) -> None:
    """A parent that is killed with SIGKILL cannot stop its workers; they notice by themselves."""
    script = (
        "import sys, time\nfrom pathlib import Path\n"
        "from upcl.research.config import Request\nfrom upcl.research.worker import WorkerJob, start_worker\n"
        f"job = WorkerJob(Request(**{ {**TINY, 'epochs': 2000}!r}), Path({str(tmp_path / 'run')!r}), 'cpu')\n"
        "print(start_worker(job, threads=1).pid, flush=True)\ntime.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        worker = int(parent.stdout.readline())
        deadline = time.monotonic() + 100
        while not (tmp_path / "run" / "events.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        parent.kill()
    while _is_running(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_running(worker)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return not (state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z")
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_worker_reports_success_and_interrupts_by_its_exit_code(tmp_path: Path) -> None:
    with start_worker(WorkerJob(Request(method="finetune", **TINY), tmp_path / "run", "cpu")) as process:
        assert process.wait(200) == 0
    assert json.loads((tmp_path / "run" / "record.json").read_text())["finished"]
    with start_worker(
        WorkerJob(Request(method="finetune", **{**TINY, "epochs": 2000}), tmp_path / "b", "cpu")
    ) as process:
        deadline = time.monotonic() + 100
        while not (tmp_path / "b" / "events.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(100) == 130


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
