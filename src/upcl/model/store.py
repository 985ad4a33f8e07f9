"""A model in a file that several processes may change: one at a time, and never half-written."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from upcl.core.errors import UserError
from upcl.core.files import exclusive_lock

from .bundle import Bundle
from .file import load, save


class ModelStore:
    """The model in a file.

    Args:
        path: the `.upcl` file; it need not exist yet.

    Attributes:
        bundle: the model as it was last read or written; None before anything is stored.

    Example:
        >>> ModelStore(Path("no-such-file.upcl")).classes
        []
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bundle: Bundle | None = load(path) if path.exists() else None
        self._file_version = _file_version(path)

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
        """Hold the lock next to the file, and start from the file as it is now."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        busy = f"{self.path} is being changed by another process; try again when it has finished"
        with exclusive_lock(self.path.with_name(f".{self.path.name}.lock"), busy=busy):
            if self._file_version != _file_version(self.path):
                self._set_bundle(load(self.path) if self.path.exists() else None)
            try:
                yield
            finally:
                self._file_version = _file_version(self.path)

    def replace(self, bundle: Bundle) -> None:
        """Write the model; the old file stays intact until the new one is complete.

        Args:
            bundle: the new model.
        """
        self._set_bundle(bundle)
        save(bundle, self.path)

    def _set_bundle(self, bundle: Bundle | None) -> None:
        self.bundle = bundle


def _file_version(path: Path) -> tuple[int, int, int] | None:
    """Changes whenever the file is replaced."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
