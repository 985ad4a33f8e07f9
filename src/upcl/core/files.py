"""Files that are complete or absent: atomic writes and exclusive locks."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from .errors import UserError

PARTIAL = ".partial"


@contextmanager
def atomic_path(path: Path, suffix: str = "") -> Iterator[Path]:
    """Write a file atomically: fill the yielded temporary path, and it replaces `path` when the block succeeds.

    A crash or kill at any moment leaves either the old file or the new one. The temporary file lies in the same folder
    under a unique name, so that no other process or machine writes to it.

    Args:
        path: the file to create or replace.
        suffix: a suffix that the temporary name must have, for libraries that insist on one.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "value.txt"
        >>> with atomic_path(target) as partial:
        ...     _ = partial.write_text("complete")
        >>> target.read_text()
        'complete'
    """
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}{PARTIAL}{suffix}")
    try:
        yield partial
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_atomic(path: Path, *content: bytes | memoryview) -> None:
    """Write bytes to `path` atomically.

    Args:
        path: the file to create or replace.
        content: the parts of the new content, in order.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "data.bin"
        >>> write_atomic(target, b"one ", b"two")
        >>> target.read_bytes()
        b'one two'
    """
    with atomic_path(path) as partial, open(partial, "wb") as file:
        file.writelines(content)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON value to `path` atomically, with lists of plain values on one line; NaN and infinities are refused.

    Args:
        path: the file to create or replace.
        value: any JSON-serialisable value.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "value.json"
        >>> write_json(target, {"seed": 0})
        >>> json.loads(target.read_text())
        {'seed': 0}
    """
    text = json.dumps(value, indent=1, allow_nan=False)  # a line break is always outside of a string
    text = re.sub(r"\[\n\s*([^\[\]{}]*?)\n\s*\]", lambda found: f"[{re.sub(_BREAK, ' ', found[1])}]", text)
    write_atomic(path, (text + "\n").encode())


_BREAK = re.compile(r"\n\s*")


@contextmanager
def exclusive_lock(path: Path, *, busy: str | None = None) -> Iterator[None]:
    """Hold a lock file. It is never removed while another process may be waiting for it.

    Args:
        path: the lock file; its folder must exist.
        busy: the message of the `UserError` raised when another process holds the lock; without it, wait.

    Example:
        >>> import tempfile
        >>> with exclusive_lock(Path(tempfile.mkdtemp()) / ".lock", busy="in use"):
        ...     pass
    """
    lock = FileLock(path, timeout=-1 if busy is None else 0)
    try:
        lock.acquire()
    except Timeout:
        raise UserError(str(busy)) from None
    try:
        yield
    finally:
        lock.release()
