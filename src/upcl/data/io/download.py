"""Downloads from official addresses, verified and resumed after an interruption; and the data sets that have one."""

from __future__ import annotations

import errno
import hashlib
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Literal

from upcl.core.errors import UserError, unknown_choice
from upcl.core.files import errors_name
from upcl.core.progress import track

from .archives import unpack

Algorithm = Literal["md5", "sha256"]
CHUNK_BYTES = 1 << 20
TIMEOUT_SECONDS = 60
IMAGENET_INSTRUCTIONS = (
    "request the ILSVRC2012 archives at image-net.org and unpack them to train/WNID/*.JPEG and either val/WNID/*.JPEG "
    "or val/*.JPEG, with LOC_val_solution.csv or the development kit next to it"
)


@dataclass(frozen=True)
class RemoteArchive:
    """Official archive of a data set.

    Args:
        title: the name of the data set in the literature.
        url: where the archive is published.
        md5: the checksum of the archive, in hexadecimal.
        folder: the folder that the archive contains.

    Example:
        >>> REMOTE_ARCHIVES["cifar100"].filename
        'cifar-100-python.tar.gz'
    """

    title: str
    url: str
    md5: str
    folder: str

    @property
    def filename(self) -> str:
        """Name of the archive file."""
        return self.url.rsplit("/", 1)[1]


REMOTE_ARCHIVES: dict[str, RemoteArchive] = {
    "cifar10": RemoteArchive(
        "CIFAR-10",
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "c58f30108f718f92721af3b95e74349a",
        "cifar-10-batches-py",
    ),
    "cifar100": RemoteArchive(
        "CIFAR-100",
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        "eb9058c3a382ffc7106e4002c42a8d85",
        "cifar-100-python",
    ),
    "tinyimagenet": RemoteArchive(
        "Tiny-ImageNet",
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        "90528d7ca1a48142e341f4ef8d21d0de",
        "tiny-imagenet-200",
    ),
    "cub200": RemoteArchive(
        "CUB-200-2011",
        "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
        "97eceeb196236b17998738112f37df78",
        "CUB_200_2011",
    ),
    "food101": RemoteArchive(
        "Food-101",
        "http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz",
        "85eeb15f3717b99a5da872d97d918f87",
        "food-101",
    ),
    "imagenetr": RemoteArchive(
        "ImageNet-R",
        "https://people.eecs.berkeley.edu/~hendrycks/imagenet-r.tar",
        "a61312130a589d0ca1a8fca1f2bd3337",
        "imagenet-r",
    ),
    "eurosat": RemoteArchive(  # torchvision's copy of the authors' archive, whose address they have deprecated
        "EuroSAT",
        "https://huggingface.co/datasets/torchgeo/eurosat/resolve/c877bcd43f099cd0196738f714544e355477f3fd/EuroSAT.zip",
        "c8fa014336c82ac7804f0398fcb19387",
        "2750",
    ),
    "core50": RemoteArchive(
        "CORe50",
        "http://bias.csr.unibo.it/maltoni/download/core50/core50_128x128.zip",
        "745f3373fed08d69343f1058ee559e13",
        "core50_128x128",
    ),
}
MANUAL_DOWNLOADS: dict[str, str] = {
    "imagenet100": IMAGENET_INSTRUCTIONS,
    "imagenet1000": IMAGENET_INSTRUCTIONS,
    "stanfordcars": (
        "its official address is gone; put cars_train/, cars_test/, devkit/ and cars_test_annos_withlabels.mat of a "
        "copy into stanford_cars/ in the data root"
    ),
}
"""What to do to get a data set that has no official address, by name."""


def find_dataset(name: str, root: Path) -> Path:
    """Locate the folder of a downloadable data set, unpacking its archive if only that is present.

    Args:
        name: a key of `REMOTE_ARCHIVES`.
        root: the folder that holds the data sets.

    Raises:
        UserError: neither the folder nor the archive is in `root`.

    Example:
        >>> find_dataset("cifar100", Path("/nowhere"))
        Traceback (most recent call last):
        upcl.core.errors.UserError: CIFAR-100 is not in /nowhere (expected cifar-100-python/ or \
cifar-100-python.tar.gz): run `upcl data get cifar100`
    """
    remote = REMOTE_ARCHIVES[name]
    if (root / remote.folder).is_dir():
        return root / remote.folder
    if (root / remote.filename).is_file():
        return unpack(root / remote.filename, root, remote.folder)
    raise UserError(
        f"{remote.title} is not in {root} (expected {remote.folder}/ or {remote.filename}): run `upcl data get {name}`"
    )


def download_dataset(name: str, root: Path) -> Path:
    """Download and unpack a data set, unless it is already there.

    Args:
        name: a key of `REMOTE_ARCHIVES`.
        root: the folder that holds the data sets; created if necessary.

    Returns:
        The folder of the data set.

    Raises:
        UserError: there is no such data set to download, the transfer failed, or the disk is full.

    Example:
        >>> download_dataset("cifar1000", Path("data"))
        Traceback (most recent call last):
        upcl.core.errors.UserError: unknown data set to download 'cifar1000': did you mean cifar100 or cifar10?
    """
    if name in MANUAL_DOWNLOADS:
        raise UserError(f"{name} cannot be downloaded automatically: {MANUAL_DOWNLOADS[name]}")
    if name not in REMOTE_ARCHIVES:
        raise unknown_choice("data set to download", name, REMOTE_ARCHIVES)
    remote = REMOTE_ARCHIVES[name]
    if (root / remote.folder).is_dir():
        return root / remote.folder
    try:
        root.mkdir(parents=True, exist_ok=True)
        archive = fetch_archive(remote, root)
        return unpack(archive, root, remote.folder)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise UserError(f"the disk of {root} is full: free some space and rerun the command") from None
        raise


def fetch_archive(remote: RemoteArchive, root: Path) -> Path:
    """Download an archive and verify its checksum, as `fetch_file` does.

    Args:
        remote: the archive to download.
        root: the folder to store it in.

    Returns:
        The path of the verified archive.

    Raises:
        UserError: the transfer failed or the checksum is wrong.

    Example:
        >>> fetch_archive(REMOTE_ARCHIVES["cifar100"], Path("data"))  # doctest: +SKIP
        PosixPath('data/cifar-100-python.tar.gz')
    """
    return fetch_file(remote.url, root / remote.filename, "md5", remote.md5)


def fetch_file(url: str, target: Path, algorithm: Algorithm, checksum: str) -> Path:
    """Download a file and verify its checksum.

    An interrupted transfer is kept as `.part` and resumed by the next call; the final name exists only once the
    checksum is right.

    Args:
        url: where the file is published.
        target: where to store it.
        algorithm: what the checksum is computed with.
        checksum: the first digits of the checksum, or all of them, in hexadecimal.

    Returns:
        The target.

    Raises:
        UserError: the transfer failed or the checksum is wrong.

    Example:
        >>> url = "https://download.pytorch.org/models/resnet18-f37072fd.pth"
        >>> fetch_file(url, Path("resnet18.pth"), "sha256", "f37072fd")  # doctest: +SKIP
        PosixPath('resnet18.pth')
    """
    if target.exists() and file_checksum(target, algorithm).startswith(checksum):
        return target
    part = target.with_name(target.name + ".part")
    with errors_name(target, instead_of=part):
        try:
            _transfer(url, part)
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
            reason = getattr(error, "reason", error)
            raise UserError(f"downloading {url} failed: {reason}; rerun the command to resume") from None
    found = file_checksum(part, algorithm)
    if not found.startswith(checksum):
        part.unlink()
        raise UserError(f"{url} has the wrong {algorithm} checksum, {found} instead of {checksum}: file discarded")
    part.replace(target)
    return target


def file_checksum(path: Path, algorithm: Algorithm) -> str:
    """Compute the checksum of a file.

    Args:
        path: the file.
        algorithm: what to compute it with.

    Returns:
        The checksum in hexadecimal.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "empty"
        >>> path.touch()
        >>> file_checksum(path, "md5")
        'd41d8cd98f00b204e9800998ecf8427e'
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def _transfer(url: str, part: Path) -> None:
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        response: HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # range not satisfiable: nothing is left to send
            return
        raise
    with response, part.open("ab" if response.status == 206 else "wb") as file:
        done = file.tell()
        total = done + int(response.headers["Content-Length"]) if response.headers["Content-Length"] else None
        with track(f"downloading {part.name.removesuffix('.part')}", total, completed=done, unit="bytes") as advance:
            while block := response.read(CHUNK_BYTES):
                file.write(block)
                done += len(block)
                advance(len(block))
    if total is not None and done < total:
        raise ConnectionError(f"connection lost after {done:,} of {total:,} bytes")
