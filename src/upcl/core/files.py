"""Files that are complete or absent: atomic writes and exclusive locks; and the limit on what archives unpack to."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import re
import uuid
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from .errors import UserError

PARTIAL = ".partial"
_PARTIAL_NAME = re.compile(rf"\.[0-9a-f]{{12}}\.[0-9a-f]{{12}}{re.escape(PARTIAL)}(\.\w+)?")
MAX_UNPACKED = 16  # times the size of an archive: most of what we and PyTorch write is not compressed
MIN_UNPACKED = 2**20  # bytes that an archive of any size may unpack to
MAX_JSON_DEPTH = 50


@contextmanager
def atomic_path(path: Path, suffix: str = "") -> Iterator[Path]:
    """Write a file atomically: fill the yielded temporary path, and it replaces `path` when the block succeeds.

    A crash or kill at any moment leaves either the old file or the new one. The temporary file lies in the same folder
    under a unique name, so that no other process or machine writes to it, and under a short one, so that `path` may be
    as long as the file system allows.

    Args:
        path: the file to create or replace.
        suffix: a suffix that the temporary name must have, for libraries that insist on one.

    Raises:
        UserError: if `path` is a device or a pipe, such as /dev/null, which a file must not replace.
        IsADirectoryError: if it is a folder.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "value.txt"
        >>> with atomic_path(target) as partial:
        ...     _ = partial.write_text("complete")
        >>> target.read_text()
        'complete'
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is not a file but a device or a pipe, and is left as it is: choose another path")
    partial = path.with_name(f"{_partial_prefix(path)}{uuid.uuid4().hex[:12]}{PARTIAL}{suffix}")
    try:
        with errors_name(path, instead_of=partial):
            yield partial
            with open(partial, "rb+") as file:
                os.fsync(file.fileno())
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def is_partial(path: Path) -> bool:
    """Whether a file is what a killed process left of a file that it was writing with `atomic_path`.

    Args:
        path: the file.

    Example:
        >>> is_partial(Path("thesis.partial"))
        False
    """
    return bool(_PARTIAL_NAME.fullmatch(path.name)) and path.is_file()


def _partial_prefix(path: Path) -> str:
    """How the names of a file's temporary files begin."""
    return f".{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:12]}."


def remove_partials(path: Path) -> None:
    """Remove the temporary files that killed processes left when they wrote a file.

    Args:
        path: the file. Nobody may be writing to it: hold its lock.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "value.txt"
        >>> with atomic_path(target) as partial:
        ...     _ = partial.write_text("half")
        ...     remove_partials(target)  # as if the process had been killed here
        ...     list(target.parent.iterdir())
        ...     _ = partial.write_text("complete")
        []
    """
    for prefix in (_partial_prefix(path), f"{path.name}."):  # the latter in earlier versions
        for partial in path.parent.glob(f"{glob.escape(prefix)}{'[0-9a-f]' * 12}{PARTIAL}*"):
            if partial.is_file():
                partial.unlink(missing_ok=True)


@contextmanager
def errors_name(path: Path, *, instead_of: Path | None = None) -> Iterator[None]:
    """Add the name of a file to errors inside of the block that have none, such as that of a full disk.

    Args:
        path: the file that is written.
        instead_of: a temporary name that users do not know.

    Example:
        >>> with errors_name(Path("birds.upcl")):
        ...     raise OSError(28, "No space left on device")
        Traceback (most recent call last):
        OSError: [Errno 28] No space left on device: 'birds.upcl'
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(instead_of)):
            error.filename = str(path)
        raise


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


def parse_json(text: str) -> Any:
    """Parse JSON that may have been damaged or made by somebody else.

    Args:
        text: what `write_json` wrote, or claims to be.

    Raises:
        ValueError: if it is not JSON, or nested more than `MAX_JSON_DEPTH` deep: who walks through it would exceed
            the stack.

    Example:
        >>> parse_json('{"seed": 0}')
        {'seed': 0}
        >>> parse_json("[" * 10_000)
        Traceback (most recent call last):
        ValueError: nested more than 50 deep
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"nested more than {MAX_JSON_DEPTH} deep") from None
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
        level = [each for value in level for each in _children(value)]
    if level:
        raise ValueError(f"nested more than {MAX_JSON_DEPTH} deep")
    return value


def _children(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def read_text(path: Path) -> str:
    """Read a text file that a user has named.

    Args:
        path: the file, in UTF-8.

    Raises:
        UserError: if it is not text, or not a regular file: a pipe may never end.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "order.txt"
        >>> _ = path.write_bytes(bytes([127, 69, 76, 70, 0]))
        >>> read_text(path)
        Traceback (most recent call last):
        upcl.core.errors.UserError: ...order.txt is not a text file in UTF-8
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UserError(f"{path} is not a file but a device or a pipe")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UserError(f"{path} is not a text file in UTF-8")
    return text


@contextmanager
def exclusive_lock(path: Path, *, busy: str | None = None) -> Iterator[None]:
    """Hold a lock file. It is never removed: a process that waits for the removed file and one that creates a new one
    would both get the lock.

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


def check_archive(path: Path, archive: zipfile.ZipFile) -> None:
    """Check that a zip archive unpacks to a small multiple of its size, before anything in it is read.

    Args:
        path: the file.
        archive: the archive in it.

    Raises:
        ValueError: if it declares more, or is packed in a way whose memory is not known in advance.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "zeros.zip"
        >>> with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        ...     archive.writestr("zeros", bytes(10_000_000))
        >>> with zipfile.ZipFile(path) as archive:
        ...     check_archive(path, archive)
        Traceback (most recent call last):
        ValueError: it unpacks to 10,000,000 bytes, more than a file of ...
    """
    entries, size = archive.infolist(), path.stat().st_size
    if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
        raise ValueError("it is packed neither by deflate nor without compression")
    if (unpacked := sum(entry.file_size for entry in entries)) > max(MIN_UNPACKED, MAX_UNPACKED * size):
        raise ValueError(f"it unpacks to {unpacked:,} bytes, more than a file of {size:,} bytes may")
