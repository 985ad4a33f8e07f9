"""Downloads: official addresses, checked, resumed where they broke, and never half-written under their real name."""

from __future__ import annotations

import errno
import hashlib
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from upcl.core.errors import UserError, unknown_choice
from upcl.core.progress import track
from upcl.data.loaders.imagenet import HOW

from .archives import unpack

CHUNK = 1 << 20
TIMEOUT = 60


@dataclass(frozen=True)
class Remote:
    """Where a data set is had, and how to know that it is the right file."""

    url: str
    md5: str
    folder: str

    @property
    def archive(self) -> str:
        return self.url.rsplit("/", 1)[1]


REMOTES: dict[str, Remote] = {
    "cifar10": Remote(
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "c58f30108f718f92721af3b95e74349a",
        "cifar-10-batches-py",
    ),
    "cifar100": Remote(
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        "eb9058c3a382ffc7106e4002c42a8d85",
        "cifar-100-python",
    ),
    "tinyimagenet": Remote(
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip", "90528d7ca1a48142e341f4ef8d21d0de", "tiny-imagenet-200"
    ),
}


def get(name: str, root: Path) -> Path:
    """Download and unpack a data set; what is there already is left alone."""
    if name.startswith("imagenet"):
        raise UserError(f"{name} is not open to download: {HOW}")
    if name not in REMOTES:
        raise unknown_choice("data set to download", name, REMOTES)
    remote = REMOTES[name]
    if (root / remote.folder).is_dir():
        return root / remote.folder
    try:
        root.mkdir(parents=True, exist_ok=True)
        archive = fetch(remote, root)
        return unpack(archive, root, remote.folder)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise UserError(f"the disk of {root} is full: make room and run the command again") from None
        raise


def fetch(remote: Remote, root: Path) -> Path:
    """The checked archive. A broken transfer stays as `.part` and goes on where it stopped."""
    target = root / remote.archive
    if target.exists() and _md5(target) == remote.md5:
        return target
    part = target.with_name(target.name + ".part")
    try:
        _transfer(remote.url, part)
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        raise UserError(
            f"{remote.url} could not be read: {reason}. The same command goes on where it stopped"
        ) from None
    found = _md5(part)
    if found != remote.md5:
        part.unlink()
        raise UserError(f"{remote.url} gave a file with md5 {found}, not {remote.md5}: it was thrown away")
    part.replace(target)
    return target


def _transfer(url: str, part: Path) -> None:
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        response: HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing is left to send
            return
        raise
    with response, part.open("ab" if response.status == 206 else "wb") as file:
        done = file.tell()
        total = done + int(response.headers["Content-Length"]) if response.headers["Content-Length"] else None
        with track(part.name.removesuffix(".part"), total, completed=done, unit="bytes") as advance:
            while block := response.read(CHUNK):
                file.write(block)
                done += len(block)
                advance(len(block))
    if total is not None and done < total:
        raise ConnectionError(f"the transfer broke after {done:,} of {total:,} bytes")


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
