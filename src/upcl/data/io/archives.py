"""Untrusted archives and npz files: no path leaves the target folder, no links, and a limit on the unpacked size."""

from __future__ import annotations

import gzip
import math
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np

from upcl.core.errors import UserError
from upcl.core.files import errors_name, exclusive_lock
from upcl.core.progress import track

MAX_BYTES = 400 * 10**9
MAX_EXPANSION = 20  # times the size of the archive: images hardly compress
MIN_EXPANDED_BYTES = 10**8  # any archive may unpack to this much
TAR_OVERHEAD = 10**8  # headers and padding of many small files


@dataclass(frozen=True)
class _Member:
    """A regular file in an archive."""

    name: str
    size: int
    open: Callable[[], IO[bytes]]


def unpack(archive: Path, root: Path, folder: str) -> Path:
    """Unpack an archive of a folder.

    The content is unpacked next to its destination and moved there once it is complete, so `root / folder` is either
    complete or absent. Processes that unpack the same archive wait for each other.

    Args:
        archive: a `.zip`, `.tar` or `.tar.gz` file.
        root: an existing folder, in which the new folder is created.
        folder: the folder that the archive contains.

    Returns:
        The path of the unpacked folder; if it exists already, nothing is unpacked.

    Raises:
        UserError: the archive is damaged, unsafe or too large, or does not contain the folder.

    Example:
        >>> root = Path(tempfile.mkdtemp())
        >>> with zipfile.ZipFile(root / "birds.zip", "w") as archive:
        ...     archive.writestr("birds/names.txt", "robin")
        >>> (unpack(root / "birds.zip", root, "birds") / "names.txt").read_text()
        'robin'
    """
    with exclusive_lock(root / f".{folder}.lock"), _open_members(archive) as members:
        for leftover in root.glob(f".unpacking-{folder}-*"):  # of a process that was killed: we hold the lock
            shutil.rmtree(leftover)
        if (root / folder).is_dir():  # another process was faster
            return root / folder
        _check_members(archive, members)
        with tempfile.TemporaryDirectory(dir=root, prefix=f".unpacking-{folder}-") as temporary:
            with errors_name(root / folder):
                _extract(archive, members, Path(temporary))
            if not (Path(temporary) / folder).is_dir():
                raise UserError(f"{archive} does not contain the folder {folder}")
            (Path(temporary) / folder).rename(root / folder)
    return root / folder


def read_npz(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Read arrays from a file written by `numpy.savez`, after a check that none is larger than the file says it holds.

    Args:
        path: the file.
        names: the arrays to read, if they are there.

    Returns:
        The arrays by name.

    Raises:
        UserError: the file is damaged, is not an npz file, unpacks to too much, or holds anything but plain arrays.

    Example:
        >>> path = Path(tempfile.mkdtemp()) / "own.npz"
        >>> np.savez(path, labels=[0, 1], other=[2])
        >>> read_npz(path, ["images", "labels"])
        {'labels': array([0, 1])}
    """
    try:
        with zipfile.ZipFile(path) as zipped:
            members = {name: i for i in zipped.infolist() if (name := i.filename.removesuffix(".npy")) in names}
            advice = ": save it without compression (numpy.savez), or in parts"
            _check_size(path, sum(member.file_size for member in members.values()), advice)
            return {name: _read_array(zipped, member) for name, member in members.items()}
    except UserError:
        raise
    except Exception as error:  # a damaged file can fail in any way
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UserError(f"{path} cannot be read as npz: {error or type(error).__name__}") from None


def _read_array(zipped: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """Read an array whose header was checked: numpy allocates what the header says before it reads anything."""
    with zipped.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version not in _HEADER_READERS:
            raise ValueError(f"{member.filename} is not a plain array")
        shape, _, dtype = _HEADER_READERS[version](file)
        if math.prod(shape) * max(dtype.itemsize, 1) != member.file_size - file.tell():
            raise ValueError(f"{member.filename} does not hold as many bytes as its header says ({shape} {dtype})")
    with zipped.open(member) as file:
        array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
    return array


_HEADER_READERS: dict[tuple[int, int], Callable[[IO[bytes]], tuple[tuple[int, ...], bool, np.dtype]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@contextmanager
def _open_members(archive: Path) -> Iterator[list[_Member]]:
    try:
        if archive.name.endswith(".zip"):
            with zipfile.ZipFile(archive) as zipped:
                links = [i.filename for i in zipped.infolist() if (i.external_attr >> 16) & 0o170000 == 0o120000]
                _check_no_links(archive, links)
                files = [i for i in zipped.infolist() if not i.is_dir()]
                yield [_Member(i.filename, i.file_size, partial(zipped.open, i)) for i in files]
        else:
            _check_gzip_stream(archive)
            with tarfile.open(archive) as tar:
                _check_no_links(archive, [m.name for m in tar.getmembers() if not (m.isfile() or m.isdir())])
                regular = [m for m in tar.getmembers() if m.isfile()]
                yield [_Member(m.name, m.size, partial(_open_tar_member, tar, m)) for m in regular]
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UserError(
            f"{archive} is damaged or cannot be unpacked: {error}; delete it and download it again"
        ) from None


def _open_tar_member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(member)
    assert content is not None, "a regular file has content"
    return content


def _check_gzip_stream(archive: Path) -> None:
    """Read a gzip file up to the checksum at its end: tarfile mistakes a damaged header for the end of the archive."""
    if archive.name.endswith("gz"):
        size = 0
        with gzip.open(archive) as stream:
            while block := stream.read(1 << 24):
                size += len(block)
                _check_size(archive, size - TAR_OVERHEAD)


def _check_size(archive: Path, size: int, advice: str = "") -> None:
    limit = min(MAX_BYTES, max(MIN_EXPANDED_BYTES, MAX_EXPANSION * archive.stat().st_size))
    if size > limit:
        raise UserError(f"{archive} was not unpacked: its content exceeds the limit of {limit:,} bytes{advice}")


def _check_no_links(archive: Path, names: list[str]) -> None:
    if names:
        raise UserError(f"{archive} was not unpacked: it contains links or devices, such as {names[0]}")


def _check_members(archive: Path, members: list[_Member]) -> None:
    for member in members:
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or "\\" in member.name:
            raise UserError(f"{archive} was not unpacked: {member.name} lies outside the archive's folder")
    _check_size(archive, sum(member.size for member in members))


def _extract(archive: Path, members: list[_Member], target: Path) -> None:
    with track(f"unpacking {archive.name}", len(members)) as advance:
        for member in members:
            path = target / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            with member.open() as source, path.open("wb") as file:
                shutil.copyfileobj(source, file)
            advance(1)
