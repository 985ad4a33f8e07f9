"""Archives unpacked without trust: no path leaves the folder, no links, a limit on the size."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from upcl.core.errors import UserError
from upcl.core.files import exclusive_lock
from upcl.core.progress import track

MOST_BYTES = 400 * 10**9
TAR_OVERHEAD = 10**8  # headers and padding of many small files
MOST_TIMES, SMALL = 20, 10**8  # an archive of images unpacks to about its own size; small ones may to more


@dataclass(frozen=True)
class Member:
    """One regular file of an archive."""

    name: str
    size: int
    open: Callable[[], IO[bytes]]


@contextmanager
def _members(archive: Path) -> Iterator[list[Member]]:
    try:
        if archive.name.endswith(".zip"):
            with zipfile.ZipFile(archive) as zipped:
                links = [i.filename for i in zipped.infolist() if (i.external_attr >> 16) & 0o170000 == 0o120000]
                _refuse_links(archive, links)
                files = [i for i in zipped.infolist() if not i.is_dir()]
                yield [Member(i.filename, i.file_size, partial(zipped.open, i)) for i in files]
        else:
            _check_stream(archive)
            with tarfile.open(archive) as tar:
                _refuse_links(archive, [m.name for m in tar.getmembers() if not (m.isfile() or m.isdir())])
                inside = [m for m in tar.getmembers() if m.isfile()]
                yield [Member(m.name, m.size, partial(_content, tar, m)) for m in inside]
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UserError(f"{archive} is damaged or cannot be unpacked: {error}. Remove it and get it again") from None


def _check_stream(archive: Path) -> None:
    """Read a gzip file to its end, where its checksum is: tarfile would take a damaged header for the end."""
    if archive.name.endswith("gz"):
        size = 0
        with gzip.open(archive) as stream:
            while block := stream.read(1 << 24):
                size += len(block)
                _refuse_size(archive, size - TAR_OVERHEAD)


def _refuse_size(archive: Path, size: int) -> None:
    most = min(MOST_BYTES, max(SMALL, MOST_TIMES * archive.stat().st_size))
    if size > most:
        raise UserError(f"{archive} unpacks to more than {most:,} bytes: it was not unpacked")


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(member)
    assert content is not None, "a regular file has content"
    return content


def _refuse_links(archive: Path, names: list[str]) -> None:
    if names:
        raise UserError(f"{archive} holds links or devices, such as {names[0]}: it was not unpacked")


def unpack(archive: Path, root: Path, folder: str) -> Path:
    """Unpack into a folder aside and move `folder` into the root when all of it is there."""
    with (
        exclusive_lock(root / f".{folder}.lock"),
        _members(archive) as members,
    ):
        for left in root.glob(f".unpacking-{folder}-*"):  # by a process that was killed: the lock is ours
            shutil.rmtree(left)
        if (root / folder).is_dir():  # another process was quicker
            return root / folder
        for member in members:
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts or "\\" in member.name:
                raise UserError(f"{archive} wants to write outside of its folder ({member.name}): it was not unpacked")
        _refuse_size(archive, sum(member.size for member in members))
        with (
            tempfile.TemporaryDirectory(dir=root, prefix=f".unpacking-{folder}-") as aside,
            track(f"unpacking {archive.name}", len(members)) as advance,
        ):
            for member in members:
                target = Path(aside) / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                with member.open() as source, target.open("wb") as file:
                    shutil.copyfileobj(source, file)
                advance(1)
            if not (Path(aside) / folder).is_dir():
                raise UserError(f"{archive} does not hold the folder {folder}")
            (Path(aside) / folder).rename(root / folder)
    return root / folder
