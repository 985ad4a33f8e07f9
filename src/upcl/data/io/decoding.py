"""Decoding of many image files into one array, in memory or in a memory-mapped cache."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import PIL
import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.files import PARTIAL, atomic_path
from upcl.core.progress import logger, track

from .images import BrokenImageError, read_square
from .paths import cache_root, decoded_root, printable_path

CACHE_VERSION = 3
STALE_SECONDS = 2 * 24 * 3600


def decode_images(paths: Sequence[Path], size: int, channels: int, description: str) -> Tensor:
    """Decode the central squares of image files into memory.

    Args:
        paths: the files.
        size: height and width of the result.
        channels: 1 for grey, 3 for RGB.
        description: what the images are, for the progress report.

    Returns:
        A uint8 tensor (N x channels x size x size).

    Raises:
        UserError: a file cannot be read.

    Example:
        >>> import tempfile
        >>> from upcl.data.io.images import encode_png
        >>> path = Path(tempfile.mkdtemp()) / "black.png"
        >>> _ = path.write_bytes(encode_png(np.zeros((3, 4, 6), np.uint8)))
        >>> decode_images([path], size=2, channels=3, description="example").shape
        torch.Size([1, 3, 2, 2])
    """
    array = np.empty((len(paths), channels, size, size), dtype=np.uint8)
    _fill(array, paths, size, channels, description)
    return torch.from_numpy(array)


def decode_cached(paths: Sequence[Path], size: int, channels: int, description: str) -> Tensor:
    """Decode image files once; later calls map the result from the cache (see `decoded_root`).

    The cache file is named after a digest of the files' names, sizes and modification times. Processes that build it at
    the same time write one file each and rename it to the same name, with the same content. A damaged cache file is
    rebuilt; if the cache cannot be written, the images are decoded into memory.

    Args:
        paths: the files.
        size: height and width of the result.
        channels: 1 for grey, 3 for RGB.
        description: what the images are, for the progress report.

    Returns:
        A uint8 tensor (N x channels x size x size). Changes to it do not reach the cache.

    Raises:
        UserError: a file cannot be read, or the disk is full.

    Example:
        >>> import tempfile
        >>> from upcl.data.io.images import encode_png
        >>> path = Path(tempfile.mkdtemp()) / "grey.png"
        >>> _ = path.write_bytes(encode_png(np.full((1, 4, 6), 51, np.uint8)))
        >>> decode_cached([path], size=2, channels=1, description="example").tolist()
        [[[[51, 51], [51, 51]]]]
    """
    target = decoded_root() / f"{files_digest(paths, f'{size} {channels}')}.npy"
    shape = (len(paths), channels, size, size)
    if (known := _load(target, shape)) is not None:
        return known
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(target.parent)
        with atomic_path(target) as partial:
            array = np.lib.format.open_memmap(partial, mode="w+", dtype=np.uint8, shape=shape)
            _reserve(partial, array.nbytes)
            _fill(array, paths, size, channels, description)
            array.flush()
    except OSError as error:
        note_unwritable(error)
        return decode_images(paths, size, channels, description)
    made = _load(target, shape)
    return decode_images(paths, size, channels, description) if made is None else made


def _load(path: Path, shape: tuple[int, ...]) -> Tensor | None:
    """Map an array from the cache; None if it is not there, or is not what it should be."""
    try:
        array = np.load(path, mmap_mode="c")
    except (OSError, ValueError, EOFError):  # the latter two: a damaged file
        return None
    return torch.from_numpy(array) if array.dtype == np.uint8 and array.shape == shape else None


def note_unwritable(error: OSError) -> None:
    """Note that the cache cannot be written; the work goes on without it.

    Args:
        error: what the operating system reports.

    Example:
        >>> note_unwritable(PermissionError(13, "Permission denied"))
    """
    logger.warning(
        "the cache %s cannot be written (%s), so images will be read again next time: set UPCL_CACHE to another folder",
        printable_path(cache_root()),
        error.strerror,
    )


def files_digest(paths: Sequence[Path], purpose: str) -> str:
    """Name for something that is computed from files in their present state.

    Args:
        paths: the files; names, sizes and modification times are part of the digest.
        purpose: what is computed from them.

    Returns:
        32 hexadecimal digits.

    Example:
        >>> files_digest([], "decoded") == files_digest([], "scanned")
        False
    """
    digest = hashlib.sha256(f"{CACHE_VERSION} {PIL.__version__} {purpose}\n".encode())
    for path in paths:
        stat = path.stat()
        digest.update(f"{path.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]


def _reserve(path: Path, size: int) -> None:
    """Allocate the space on disk in advance: writing to a memory map of a full disk would kill the process."""
    if not hasattr(os, "posix_fallocate"):  # macOS, Windows
        return
    try:
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return  # a file system that cannot allocate in advance
        raise UserError(
            f"{path.parent} has no space left for {size:,} bytes of decoded images: free some, or set UPCL_CACHE"
        ) from None


def _remove_stale(folder: Path) -> None:
    """Remove partial files of processes that were killed days ago."""
    for partial in folder.glob(f"*{PARTIAL}"):
        with contextlib.suppress(OSError):
            if time.time() - partial.stat().st_mtime > STALE_SECONDS:
                partial.unlink()


def _fill(array: Iterable[np.ndarray], paths: Sequence[Path], size: int, channels: int, description: str) -> None:
    def decode(work: tuple[np.ndarray, Path]) -> None:
        target, path = work
        try:
            target[:] = read_square(path, size, channels)
        except BrokenImageError as error:
            raise UserError(f"cannot read {path}: {error}; replace or remove it") from None

    with ThreadPoolExecutor(os.cpu_count()) as pool, track(f"decoding {description}", len(paths)) as advance:
        for _ in pool.map(decode, zip(array, paths, strict=True)):
            advance(1)
