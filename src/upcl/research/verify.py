"""Proof that a killed and resumed run equals an uninterrupted one."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from upcl.core.identity import differences

from .config import Request
from .run import run
from .worker import WorkerJob, start_worker


@dataclass(frozen=True)
class ResumeCheck:
    """The result of killing and resuming a run.

    Args:
        kills: how often the run was killed.
        weights_sha256: digest of the final weights.
        differences: what differs from the uninterrupted run; empty if nothing does.

    Example:
        >>> check = ResumeCheck(kills=3, weights_sha256="9f86d081", differences=[])
        >>> "differs" if check.differences else "identical"
        'identical'
    """

    kills: int
    weights_sha256: str
    differences: list[str]


def verify_resume(
    request: Request, folder: Path, *, kills: int, on_event: Callable[[str], None] = lambda _: None
) -> ResumeCheck:
    """Compare a run that is killed with SIGKILL and resumed with one that is never interrupted.

    Args:
        request: what to run.
        folder: an empty folder for both runs.
        kills: how often to kill the run.
        on_event: called with a sentence on what happens.

    Example:
        >>> import tempfile
        >>> request = Request(method="finetune", data="digits")
        >>> verify_resume(request, Path(tempfile.mkdtemp()), kills=3).differences  # doctest: +SKIP
        []
    """
    on_event("running without interruption ...")
    reference = run(request, out=folder / "reference")
    lines = _count_lines(folder / "reference" / "events.jsonl")
    events = folder / "run" / "events.jsonl"
    job = WorkerJob(request, folder / "run", save_seconds=0)
    done = 0
    for kill in range(kills + 1):
        aim = random.Random(kill).uniform(kill, kill + 1) * lines / kills if kill < kills else math.inf
        with start_worker(job, threads=torch.get_num_threads()) as process:
            try:
                while process.poll() is None and _count_lines(events) < aim:
                    time.sleep(0.005)
                if process.poll() is None:
                    process.kill()
                    done += 1
                    on_event(
                        f"killed process {process.pid} after {_count_lines(events)} of {lines} epochs; resuming ..."
                    )
            finally:
                process.kill()
    changed = [] if done == kills else [f"only {done} of {kills} kills hit the run: make it longer (--epochs)"]
    if process.returncode != 0:
        return ResumeCheck(done, "", [*changed, f"the resumed process exited with {process.returncode}"])
    resumed = run(request, out=folder / "run", resume=True)
    changed += differences(reference.reproducible_part(), resumed.reproducible_part())
    if events.read_text() != (folder / "reference" / "events.jsonl").read_text():
        changed.append("events.jsonl differs")
    return ResumeCheck(done, resumed.weights_sha256, changed)


def _count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
