"""The short form of the attacks: a few trials of every kind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TRIALS = {
    "kill-train": 1,
    "kill-learn": 1,
    "kill-forget": 1,
    "kill-export": 1,
    "kill-grid": 1,
    "machine": 1,
    "file-model": 4,
    "file-run": 4,
    "file-data": 4,
    "image": 2,
    "request": 1,
    "command": 4,
    "growth": 2,
}


@pytest.mark.parametrize("kind", TRIALS)
def test_no_attack_succeeds(kind: str) -> None:
    words = ["--only", kind, "--trials", str(TRIALS[kind]), "--seed", "1"]
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-m", "tests.attack", *words], capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{kind} " in done.stdout
