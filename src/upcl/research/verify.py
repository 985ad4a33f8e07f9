"""Proof that a killed and resumed run equals an uninterrupted one."""

from __future__ import annotations

import math
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upcl.core.identity import differences

from .record import reproducible_part
from .run import run


@dataclass(frozen=True)
class Proof:
    """What came of killing and resuming a run."""

    kills: int
    weights_sha256: str
    differences: list[str]


def verify_resume(request: Mapping[str, Any], folder: Path, *, kills: int, say: Callable[[str], None]) -> Proof:
    """Run once to the end; then again in a process that is killed with SIGKILL while it trains, and resumed."""
    say("running once without a stop ...")
    whole = run(**request, out=folder / "whole")
    lines = len((folder / "whole" / "events.jsonl").read_text().splitlines())
    events = folder / "run" / "events.jsonl"
    command = [sys.executable, "-c", _CHILD, repr(dict(request)), str(folder / "run")]
    done = 0
    for kill in range(kills + 1):
        aim = random.Random(kill).uniform(kill, kill + 1) * lines / kills if kill < kills else math.inf
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while process.poll() is None and _count_lines(events) < aim:
                time.sleep(0.005)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                done += 1
                say(f"killed process {process.pid} after {_count_lines(events)} of {lines} epochs; resuming ...")
        finally:
            process.kill()
            process.wait()
    changed = [] if done == kills else [f"only {done} of {kills} kills hit the run: give it more to do (--epochs)"]
    if process.returncode != 0:
        return Proof(done, "", [*changed, f"the resumed process ended with {process.returncode}"])
    resumed = run(**request, out=folder / "run", resume=True)
    changed += differences(reproducible_part(whole), reproducible_part(resumed))
    if events.read_text() != (folder / "whole" / "events.jsonl").read_text():
        changed.append("events.jsonl differs")
    return Proof(done, resumed["weights_sha256"], changed)


def _count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


_CHILD = """
import ast, sys
from upcl import run
run(**ast.literal_eval(sys.argv[1]), out=sys.argv[2], resume=True, save_seconds=0)
"""
