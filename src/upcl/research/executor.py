"""The loop of a grid: starts runs where there is room, and follows them to their records."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from upcl.core.lease import NAME as LEASE
from upcl.core.lease import STALE_SECONDS, read_owner

from .backends import Backend, ExecutorOptions, make_backend
from .config import RunConfig
from .grid import GridRun
from .record import finished_record

POLL_SECONDS = 0.5
STOP_SECONDS = 20.0
TAIL_BYTES = 4096
STARTED = ("queued", "running")


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
    with make_backend(options) as backend:
        try:
            while any(run.status in ("waiting", *STARTED) for run in runs):
                _start(runs, backend)
                for run in runs:
                    if run.status in STARTED:
                        _poll(run)
                on_change(runs)
                time.sleep(POLL_SECONDS)
        finally:
            _stop([run for run in runs if run.status in STARTED])
            on_change(runs)


def _start(runs: Sequence[GridRun], backend: Backend) -> None:
    """Start as many runs as there is room for, but none that another grid works on."""
    waiting = [run for run in runs if run.status == "waiting" and not _is_claimed(run)]
    if backend.slots is not None:
        waiting = waiting[: max(0, backend.slots - sum(run.status in STARTED for run in runs))]
    if waiting:
        for run, handle in zip(waiting, backend.start(waiting), strict=True):
            assert run.config
            run.handle, run.status, run.resumed_at = handle, "queued", finished_share(run.folder, run.config)


def _poll(run: GridRun) -> None:
    assert run.handle and run.config
    state = run.handle.state()
    run.status = "queued" if state == "waiting" else "running"
    if run.status == "running" and not run.started:
        run.started = time.monotonic()
    run.seconds = time.monotonic() - run.started if run.started else 0.0
    run.share = finished_share(run.folder, run.config)
    if state == "ended":
        run.record = finished_record(run.folder, run.config)
        if run.record:
            run.status, run.share = "done", 1.0
        elif run.handle.is_busy():  # another grid was faster
            run.status = "waiting"
        else:
            run.status, run.error = "failed", run.handle.error()


def _is_claimed(run: GridRun) -> bool:
    """Whether another process works on a run: its owner is alive, or was seen counting not long ago."""
    owner = read_owner(run.folder / LEASE)
    if owner is None or owner.is_dead():
        return False
    if run.claim[:2] != (owner.token, owner.count):
        run.claim = owner.token, owner.count, time.monotonic()
    return time.monotonic() - run.claim[2] < STALE_SECONDS


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
    """Ask all runs to end and wait for them; a run can be stopped without loss."""
    for run in runs:
        assert run.handle
        run.handle.stop()
    deadline = time.monotonic() + STOP_SECONDS
    for run in runs:
        assert run.handle
        run.handle.join(max(0.1, deadline - time.monotonic()))
        run.status = "stopped"
