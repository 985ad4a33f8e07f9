"""Runs in processes of this machine, which share its cores."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from upcl.research.grid import GridRun
from upcl.research.worker import BUSY, start_worker

from .base import ExecutorOptions, RunHandle, State


def log_tail(log: Path) -> str:
    """The last line of a log that is not empty.

    Args:
        log: the file.

    Example:
        >>> log_tail(Path("missing.log"))
        'no output'
    """
    content = log.read_text(errors="replace") if log.is_file() else ""
    lines = [line for line in content.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


@dataclass
class LocalRun:
    """A run in a process of this machine.

    Args:
        process: the process.
        log: the file for its output.

    Example:
        >>> import sys
        >>> process = subprocess.Popen([sys.executable, "-c", "exit(3)"])
        >>> run = LocalRun(process, Path("run.log"))
        >>> run.join(seconds=60)
        >>> run.state(), run.error()
        ('ended', 'exit code 3: no output (run.log)')
    """

    process: subprocess.Popen[bytes]
    log: Path

    def state(self) -> State:
        """Whether the process runs or has ended."""
        if self.process.poll() is None:
            return "running"
        self._close()
        return "ended"

    def error(self) -> str:
        """The exit code and the last line of the output."""
        return f"exit code {self.process.returncode}: {log_tail(self.log)} ({self.log})"

    def is_busy(self) -> bool:
        """Whether another process works on the run."""
        return self.process.returncode == BUSY

    def stop(self) -> None:
        """Interrupt the process."""
        self.process.send_signal(signal.SIGINT)

    def join(self, seconds: float) -> None:
        """Wait for the process; kill it after so many seconds, which loses nothing that was saved.

        Args:
            seconds: how long to wait.
        """
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._close()

    def _close(self) -> None:
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()


class LocalBackend:
    """Starts a process for each run.

    Args:
        options: the number of processes at a time, and what they need.

    Example:
        >>> LocalBackend(ExecutorOptions(Path("runs"), jobs=3)).slots
        3
    """

    def __init__(self, options: ExecutorOptions) -> None:
        self.options, self.slots = options, options.jobs

    def start(self, runs: Sequence[GridRun]) -> list[RunHandle]:
        """Start a process for each run, with its share of the cores.

        Args:
            runs: the runs.
        """
        threads = max(1, (os.cpu_count() or 1) // self.options.jobs)
        logs = [self.options.log(run) for run in runs]
        return [
            LocalRun(start_worker(self.options.job(run), log, threads), log)
            for run, log in zip(runs, logs, strict=True)
        ]


@contextmanager
def open_local(options: ExecutorOptions) -> Iterator[LocalBackend]:
    """Execute runs on this machine.

    Args:
        options: the number of processes at a time, and what they need.

    Example:
        >>> with open_local(ExecutorOptions(Path("runs"))) as backend:
        ...     backend.slots
        1
    """
    yield LocalBackend(options)
