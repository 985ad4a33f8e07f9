"""Commands run in this process, in an empty folder; or in a process of their own where that matters."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from upcl.cli import main

STREAM = ["--data", "synthetic:classes=6,train=10,test=5", "--tasks", "3", "--memory", "12", "--epochs", "4"]
"""A run of about a second."""

Invoke = Callable[..., Result]


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Run a command in `tmp_path`, on a terminal of 80 columns by default."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str, columns: int = 80) -> Result:
        return CliRunner().invoke(main, list(words), env={"COLUMNS": str(columns)})

    return run


def command(*words: str) -> list[str]:
    """The command in a process of its own."""
    return [sys.executable, "-m", "upcl", *words]


def run_process(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), capture_output=True, text=True, cwd=cwd, timeout=280)
