"""Runs of a grid in local processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from .config import RunConfig
from .grid import GridRun, _finished

POLL_SECONDS = 0.5
STOP_SECONDS = 20.0
TIED = "UPCL_ENDS_WITH_ITS_GRID"


@dataclass(frozen=True)
class ExecutorOptions:
    """Where and how the runs of a grid are done."""

    out: Path
    jobs: int = 1
    device: str = "auto"
    data_root: Path | None = None


def run_grid(rows: Sequence[GridRun], place: ExecutorOptions, show: Callable[[Sequence[GridRun]], None]) -> None:
    """Do what is left, `jobs` at a time. A failed run does not stop the others; Ctrl-C stops all, to go on later."""
    try:
        while any(row.status in ("waiting", "running") for row in rows):
            running = [row for row in rows if row.status == "running"]
            for row in [row for row in rows if row.status == "waiting"][: place.jobs - len(running)]:
                _start(row, place)
            for row in running:
                _look(row)
            show(rows)
            time.sleep(POLL_SECONDS)
    finally:
        _stop([row for row in rows if row.status == "running"])
        show(rows)


def _start(row: GridRun, place: ExecutorOptions) -> None:
    """A process of its own with its share of the cores; its words go to a log beside its folder."""
    asked = {k: v for k, v in vars(row.job.request).items() if v is not None}
    requests, logs = place.out / "requests", place.out / "logs"
    for folder in (requests, logs):
        folder.mkdir(parents=True, exist_ok=True)
    request = requests / f"{row.folder.name}.yaml"
    request.write_text(yaml.safe_dump(json.loads(json.dumps(asked)), sort_keys=False))
    threads = max(1, (os.cpu_count() or 1) // place.jobs)
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE", TIED: "yes"}
    words = ["train", "--config", str(request), "--out", str(row.folder), "--resume", "--device", place.device]
    words += ["--data-root", str(place.data_root)] if place.data_root else []
    with (logs / f"{row.folder.name}.log").open("wb") as log:
        row.process = subprocess.Popen(
            [sys.executable, "-m", "upcl", *words],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=env,
            start_new_session=True,
        )
    assert row.config
    row.status, row.started, row.begun = "running", time.monotonic(), _share(row.folder, row.config)


def exit_with_parent() -> None:
    """In a run that a grid started: end when the grid does, however it ends. A run can be stopped at any moment."""
    if os.environ.get(TIED):
        threading.Thread(target=lambda: (sys.stdin.read(), os._exit(1)), daemon=True).start()


def _look(row: GridRun) -> None:
    assert row.process and row.config
    row.seconds = time.monotonic() - row.started
    row.share = _share(row.folder, row.config)
    if row.process.poll() is None:
        return
    row.process.communicate()  # closes the pipe
    row.record = _finished(row)
    row.status, row.share = ("done", 1.0) if row.record else ("failed", row.share)
    if not row.record:
        log = row.folder.parent / "logs" / f"{row.folder.name}.log"
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        row.error = f"exit {row.process.returncode}: {lines[-1] if lines else 'it said nothing'} ({log})"


def _share(folder: Path, config: RunConfig) -> float:
    """How much of a run is done, by the last line of its events."""
    try:
        with (folder / "events.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
            last = json.loads(file.read().splitlines()[-1])
    except (OSError, IndexError, ValueError):
        return 0.0
    recipe = config.recipes.first if last["task"] == 0 else config.recipes.later
    within = min(1.0, (last["epoch"] + 1) / recipe.epochs)
    return float((last["task"] + within) / len(config.task_sizes))


def _stop(rows: Sequence[GridRun]) -> None:
    """Ask politely, then firmly: a run may be stopped at any moment without loss."""
    for row in rows:
        assert row.process
        row.process.send_signal(signal.SIGINT)
    until = time.monotonic() + STOP_SECONDS
    for row in rows:
        assert row.process
        try:
            row.process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            row.process.kill()
        row.process.communicate()
        row.status = "stopped"
