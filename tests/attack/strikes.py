"""Where a strike hits a process: at a moment, at an operation on a file, or in the middle of a write."""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .trial import Action

OPERATIONS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.listdir", "os.scandir")
ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EMFILE, errno.EDQUOT)


def _at_operations(folder: Path, strike: Callable[[int], None]) -> None:
    """Call `strike` with the number of every operation on a file below `folder`, before it is carried out.

    Photos are left alone: one that cannot be read is noted and left out, on purpose.
    """
    number, inside = 0, str(folder)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal number
        if event not in OPERATIONS or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        path = os.fsdecode(arguments[0])
        if (path.startswith(inside) or not path.startswith("/")) and not path.endswith(".png"):
            number += 1
            strike(number - 1)

    sys.addaudithook(hook)


def counted(action: Action, folder: Path) -> Action:
    """The action, which then writes the number of its operations on files to `folder`/operations."""

    def run() -> None:
        numbers = [0]
        _at_operations(folder, numbers.append)
        try:
            action()
        finally:
            (folder.parent / f"{folder.name}.operations").write_text(str(numbers[-1]))

    return run


def killed_at(operation: int, action: Action, folder: Path) -> Action:
    """The action, killed before an operation on a file."""

    def strike(number: int) -> None:
        if number == operation:
            os.kill(os.getpid(), signal.SIGKILL)

    return _struck(action, folder, strike)


def failing_at(operation: int, error: int, action: Action, folder: Path) -> Action:
    """The action, in which an operation on a file fails with this error."""

    def strike(number: int) -> None:
        if number == operation:
            raise OSError(error, os.strerror(error))

    return _struck(action, folder, strike)


def _struck(action: Action, folder: Path, strike: Callable[[int], None]) -> Action:
    def run() -> None:
        _at_operations(folder, strike)
        action()

    return run


def limited_files(size: int, action: Action, *, kill: bool) -> Action:
    """The action, in which no file may grow beyond a size: a write beyond it is cut short and then fails, or kills."""

    def run() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if kill else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        action()

    return run
