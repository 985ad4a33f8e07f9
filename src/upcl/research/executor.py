"""Runs of a grid in local processes that share the cores."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .config import RunConfig
from .grid import GridRun
from .record import finished_record
from .worker import WorkerJob, start_worker

POLL_SECONDS = 0.5
STOP_SECONDS = 20.0
TAIL_BYTES = 4096


@dataclass(frozen=True)
class ExecutorOptions:
    """Where and how the runs of a grid are executed.

    Args:
        out: folder of the runs.
        jobs: number of runs at a time.
        device: where to train.
        data_root: folder that holds data sets.

    Example:
        >>> ExecutorOptions(Path("runs"), jobs=2).device
        'auto'
    """

    out: Path
    jobs: int = 1
    device: str = "auto"
    data_root: Path | None = None


def run_grid(runs: Sequence[GridRun], options: ExecutorOptions, on_change: Callable[[Sequence[GridRun]], None]) -> None:
    """Execute the runs that are left. A failed run does not stop the others; an interrupt stops all, to be resumed.

    Args:
        runs: the runs, as `prepare` returned them; their status is updated in place.
        options: where and how to execute them.
        on_change: called a few times per second with all runs.

    Example:
        >>> from upcl.research.grid import prepare, read_grid
        >>> runs = prepare(read_grid(Path("mine.yaml")), Path("runs"), None)  # doctest: +SKIP
        >>> run_grid(runs, ExecutorOptions(Path("runs"), jobs=2), print)  # doctest: +SKIP
    """
    try:
        while any(run.status in ("waiting", "running") for run in runs):
            running = [run for run in runs if run.status == "running"]
            for run in [run for run in runs if run.status == "waiting"][: options.jobs - len(running)]:
                _start(run, options)
            for run in running:
                _poll(run)
            on_change(runs)
            time.sleep(POLL_SECONDS)
    finally:
        _stop([run for run in runs if run.status == "running"])
        on_change(runs)


def _start(run: GridRun, options: ExecutorOptions) -> None:
    """Start a run in a process of its own, with its share of the cores and a log file."""
    assert run.config
    log = _log_path(run.folder)
    log.parent.mkdir(parents=True, exist_ok=True)
    threads = max(1, (os.cpu_count() or 1) // options.jobs)
    run.process = start_worker(WorkerJob(run.job.request, run.folder, options.device, options.data_root), log, threads)
    run.status, run.started, run.resumed_at = "running", time.monotonic(), finished_share(run.folder, run.config)


def _log_path(folder: Path) -> Path:
    return folder.parent / "logs" / f"{folder.name}.log"


def _poll(run: GridRun) -> None:
    assert run.process and run.config
    run.seconds = time.monotonic() - run.started
    run.share = finished_share(run.folder, run.config)
    if run.process.poll() is None:
        return
    run.process.communicate()  # closes the pipe
    run.record = finished_record(run.folder, run.config)
    run.status, run.share = ("done", 1.0) if run.record else ("failed", run.share)
    if not run.record:
        log = _log_path(run.folder)
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        run.error = f"exit code {run.process.returncode}: {lines[-1] if lines else 'no output'} ({log})"


def finished_share(folder: Path, config: RunConfig) -> float:
    """How much of a run is done, by the last line of its events.

    Args:
        folder: the run's folder.
        config: the resolved configuration.

    Returns:
        A share between 0 and 1.

    Example:
        >>> finished_share(Path("does-not-exist"), config=None)
        0.0
    """
    try:
        with (folder / "events.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            last = json.loads(file.read().splitlines()[-1])
    except (OSError, IndexError, ValueError):
        return 0.0
    recipe = config.recipes.first if last["task"] == 0 else config.recipes.later
    within = min(1.0, (last["epoch"] + 1) / recipe.epochs)
    return float((last["task"] + within) / len(config.task_sizes))


def _stop(runs: Sequence[GridRun]) -> None:
    """Interrupt the processes, and kill those that do not end in time; a run can be stopped without loss."""
    for run in runs:
        assert run.process
        run.process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + STOP_SECONDS
    for run in runs:
        assert run.process
        try:
            run.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            run.process.kill()
        run.process.communicate()
        run.status = "stopped"
