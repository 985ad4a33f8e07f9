"""One trial: an action in a process of its own, with limits on time and memory, and what became of it."""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

SECONDS = 120.0  # a busy machine is no failure
MAX_MB = 1024
ADDRESS_SPACE = 12 << 30  # protects the machine that runs the attack
Action = Callable[[], object]


class Verdict(StrEnum):
    """What became of a trial."""

    REFUSED = "refused"
    RIGHT = "right"
    WRONG = "wrong"
    CRASHED = "crashed"
    HUNG = "hung"
    OVER_MEMORY = "over memory"


FAILURES = (Verdict.WRONG, Verdict.CRASHED, Verdict.HUNG, Verdict.OVER_MEMORY)


class FailedTrialError(Exception):
    """A trial that failed in this way."""

    def __init__(self, verdict: Verdict, message: str) -> None:
        super().__init__(message if len(message) < 6000 else f"{message[:2000]}\n...\n{message[-4000:]}")
        self.verdict = verdict


Result = Verdict | Counter[Verdict]
Trial = Callable[[random.Random, Path], Result]
"""Attacks once, in an empty folder; a trial of several attacks returns how many had each verdict."""


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Args:
        status: its exit code; the number of the signal that ended it, negative; None if it did not end in time.
        output: what it printed.
        peak_mb: the largest resident memory.
        seconds: how long it ran.
    """

    status: int | None
    output: str
    peak_mb: int
    seconds: float

    @property
    def killed(self) -> bool:
        return self.status in (-signal.SIGKILL, -signal.SIGXFSZ)

    def verdict(self) -> Verdict:
        """Accepted or refused with a sentence; everything else is a failure."""
        if self.status is None:
            raise FailedTrialError(Verdict.HUNG, self.output)
        if self.peak_mb > MAX_MB:
            raise FailedTrialError(Verdict.OVER_MEMORY, f"{self.peak_mb} MB\n{self.output}")
        if self.status < 0 or "Traceback (most recent call last)" in self.output:
            raise FailedTrialError(Verdict.CRASHED, f"exit code {self.status}\n{self.output}")
        if self.status == 0:
            return Verdict.RIGHT
        if "rror" not in self.output and "nterrupted" not in self.output:
            raise FailedTrialError(Verdict.CRASHED, f"exit code {self.status} without a reason\n{self.output}")
        return Verdict.REFUSED


def command(*words: str) -> Action:
    """A command of `upcl`."""

    def run() -> None:
        from upcl.cli import main

        main(list(words), prog_name="upcl")

    return run


def run_forked(
    action: Action, folder: Path, *, seconds: float = SECONDS, kill_after: float | None = None, stdin: bytes = b""
) -> Ended:
    """Run an action in a forked process whose working directory is `folder`.

    Args:
        action: what to do.
        folder: the working directory.
        seconds: kill the process after this time and call it hung.
        kill_after: kill it after this time, as part of the attack.
        stdin: what it can read from standard input.
    """
    reading, writing = os.pipe()  # a limit on the size of files does not hold for a pipe
    start, pid = time.monotonic(), os.fork()
    if pid == 0:
        _become_child(action, folder, writing, stdin)
    os.close(writing)
    os.set_blocking(reading, False)
    due, output, hung = start + (seconds if kill_after is None else kill_after), b"", False
    while not (ended := os.wait4(pid, os.WNOHANG))[0]:
        output += _read(reading)
        if time.monotonic() > due:
            hung = kill_after is None
            os.kill(pid, signal.SIGKILL)
            ended = os.wait4(pid, 0)
            break
        time.sleep(0.002)
    _kill_group(pid)
    text = (output + _read(reading)).decode(errors="replace")
    os.close(reading)
    _, status, usage = ended
    code = None if hung else os.waitstatus_to_exitcode(status)
    return Ended(code, text, usage.ru_maxrss // 1024, time.monotonic() - start)


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, 1 << 20)
    except BlockingIOError:
        return b""


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)  # processes that it started
    except ProcessLookupError:
        return


def _become_child(action: Action, folder: Path, output: int, stdin: bytes) -> None:
    code = 70
    try:
        os.setsid()
        os.chdir(folder)
        reading, writing = os.pipe()
        os.write(writing, stdin[:65536])
        os.close(writing)
        for target, source in ((0, reading), (1, output), (2, output)):
            os.dup2(source, target)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        action()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def expect(condition: bool, message: str) -> None:
    """Fail the trial with a wrong result unless the condition holds."""
    if not condition:
        raise FailedTrialError(Verdict.WRONG, message)
