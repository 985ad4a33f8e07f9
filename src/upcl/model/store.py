"""A model in a file that several processes may change: one at a time, and never half-written."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from upcl.core.errors import UserError
from upcl.core.files import exclusive_lock, remove_partials
from upcl.methods import Method

from .bundle import Bundle
from .file import load, save


class ModelStore:
    """The model in a file.

    Args:
        path: the `.upcl` file; it need not exist yet.

    Attributes:
        bundle: the model as it was last read or written; None before anything is stored.
        file_version: the `file_version` of what was last read or written.

    Raises:
        UserError: if the name is too long for the lock file next to the model.

    Example:
        >>> ModelStore(Path("no-such-file.upcl")).classes
        []
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock_file = path.parent / f".{path.name}.lock"  # the longest name of all files next to a model
        _check_name(path, self._lock_file)
        self.file_version = file_version(path)  # before reading: a file that is replaced meanwhile is read again
        self.bundle: Bundle | None = load(path) if path.exists() else None

    @property
    def classes(self) -> list[str]:
        """Names of the known classes, in the order in which they were learned."""
        return self.bundle.state.class_names if self.bundle else []

    def require_bundle(self) -> Bundle:
        """Return the model.

        Raises:
            UserError: if nothing has been learned yet; it suggests a file with a similar name, if there is one.
        """
        if self.bundle is None:
            others = sorted(path.name for path in self.path.parent.glob("*.upcl"))
            similar = difflib.get_close_matches(self.path.name, others, n=1)
            create = f"create it with `upcl learn FOLDER --model {self.path}`"
            raise UserError(f"there is no model {self.path}: {f'did you mean {similar[0]}?' if similar else create}")
        return self.bundle

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock next to the file, remove what killed processes left, and start from the file as it is now."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        busy = f"{self.path} is being changed by another process; try again when it has finished"
        with exclusive_lock(self._lock_file, busy=busy):
            remove_partials(self.path)  # they may have images of classes that are about to be forgotten
            if self.file_version != file_version(self.path):
                self._set_bundle(load(self.path) if self.path.exists() else None)
            try:
                yield
            finally:
                self.file_version = file_version(self.path)

    def replace(self, bundle: Bundle, method: Method[Any] | None = None) -> None:
        """Write the model; the old file stays intact until the new one is complete.

        Args:
            bundle: the new model.
            method: its method with all weights, if it is at hand: it need not be loaded again.
        """
        save(bundle, self.path)
        self._set_bundle(bundle, method)

    def close(self) -> None:
        """Forget the model in memory, after its file was removed."""
        self._set_bundle(None)

    def _set_bundle(self, bundle: Bundle | None, method: Method[Any] | None = None) -> None:  # noqa: ARG002
        self.bundle = bundle


def _check_name(path: Path, lock: Path) -> None:
    try:
        lock.stat()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise UserError(f"the name of {path} is too long for this file system: choose a shorter one") from None


def file_version(path: Path) -> tuple[int, int, int] | None:
    """Identify the content of a file without reading it: changes whenever the file is replaced.

    Args:
        path: the file.

    Returns:
        Inode, size and time of the last change; None if there is no file.

    Example:
        >>> file_version(Path("no-such-file.upcl")) is None
        True
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
