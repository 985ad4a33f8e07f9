"""Where the files of a data set are looked for, and what is said if they lie elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from upcl.core.errors import UserError

from .archives import unpack
from .download import MANUAL_DOWNLOADS, REMOTE_ARCHIVES


@dataclass(frozen=True)
class Layout:
    """The folder that the official archive of a data set unpacks to.

    Args:
        name: the data set's name in the registry.
        title: its name in the literature.
        folders: where it may lie, relative to the data root; the first is named in messages.
        markers: patterns of files or folders in it, any of which tells it from others.

    Example:
        >>> Layout("cub200", "CUB-200-2011", ("CUB_200_2011",), ("images.txt",)).find(Path("/nowhere"))
        Traceback (most recent call last):
        upcl.core.errors.UserError: CUB-200-2011 is not in /nowhere (expected CUB_200_2011/ or CUB_200_2011.tgz): \
run `upcl data get cub200`
    """

    name: str
    title: str
    folders: tuple[str, ...]
    markers: tuple[str, ...]

    def find(self, root: Path) -> Path:
        """Locate the folder of the data set, unpacking its archive if only that is present.

        Args:
            root: the folder that holds the data sets.

        Raises:
            UserError: the data set is not there, or one folder higher or lower than expected.
        """
        folders = [root / folder for folder in self.folders]
        if found := next(filter(self._is_here, folders), None):
            return found
        remote = REMOTE_ARCHIVES.get(self.name)
        if remote and not (root / remote.folder).is_dir() and (root / remote.filename).is_file():
            unpacked = unpack(root / remote.filename, root, remote.folder)
            if self._is_here(unpacked):
                return unpacked
        raise UserError(self._explanation(root, [folder for folder in folders if folder.is_dir()]))

    def _is_here(self, folder: Path) -> bool:
        return any(next(folder.glob(marker), None) for marker in self.markers)

    def _explanation(self, root: Path, present: list[Path]) -> str:
        remote = REMOTE_ARCHIVES.get(self.name)
        how = f"run `upcl data get {self.name}`" if remote else MANUAL_DOWNLOADS[self.name]
        expected = self.folders[0]
        if self._is_here(root):
            return f"{root} is {self.title} itself: name the folder {expected} and give the folder above as data root"
        if deeper := next(filter(self._is_here, _subfolders(present)), None):
            return f"{self.title} lies one folder too deep, in {deeper}: move its content up, into {deeper.parent}"
        if present:
            markers = " or ".join(self.markers)
            return f"{present[0]} is not {self.title} as its archive unpacks ({markers} is missing): {how}"
        archive = f" or {remote.filename}" if remote else ""
        return f"{self.title} is not in {root} (expected {expected}/{archive}): {how}"


def _subfolders(folders: list[Path]) -> Iterator[Path]:
    return (path for folder in folders for path in sorted(folder.iterdir()) if path.is_dir())
