"""Image files to pixels: one careful reader, and decoding of many files once into a memory-mapped array."""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import io
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import numpy as np
import PIL
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.files import PARTIAL, atomic_path
from upcl.core.progress import track

from .paths import decoded_root

CACHE_VERSION = 3
STALE_SECONDS = 2 * 24 * 3600
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"}
MOST_PIXELS = 100_000_000


class BrokenImageError(Exception):
    """A file that cannot be read as an image; the message says why."""


class UnreachableImageError(BrokenImageError):
    """A file that the system does not let us read now; it may be whole."""


def read_image(
    path: Path | BinaryIO,
    finer_than_needed: Callable[[int, int], float] | None = None,
    most_pixels: int | None = None,
) -> Image.Image:
    """The first frame as RGB, or as grey where the file is grey: turned by EXIF, transparency on white, 16 bit to 8.

    `finer_than_needed` tells from width and height by how much an image is finer than its use: a JPEG is then decoded
    at a half, a quarter or an eighth of its size, but never more coarsely than that.
    """
    try:
        with Image.open(path) as image:
            if image.width * image.height > (most := most_pixels or MOST_PIXELS):
                raise BrokenImageError(f"{image.width} x {image.height} pixels are more than {most:,}")
            if finer_than_needed and (spare := finer_than_needed(*image.size)) >= 2:
                image.draft(None, (math.ceil(image.width / spare), math.ceil(image.height / spare)))
            image.load()
            ImageOps.exif_transpose(image, in_place=True)
            return _plain(image)
    except (BrokenImageError, MemoryError):
        raise
    except Image.DecompressionBombError as error:
        raise BrokenImageError(str(error)) from None
    except UnidentifiedImageError:
        raise BrokenImageError("is not an image that can be read") from None
    except Exception as error:  # Pillow's plugins raise many kinds for damaged files
        if isinstance(error, OSError) and error.errno is not None:
            raise UnreachableImageError(error.strerror) from None
        raise BrokenImageError(str(error)) from None


def _plain(image: Image.Image) -> Image.Image:
    if image.mode.startswith(("I", "F")):
        values = np.asarray(image, dtype=np.float64)
        top = 65535.0 if image.mode.startswith("I") else max(float(values.max()), 1.0)
        return Image.fromarray(np.clip(values / top * 255, 0, 255).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        grey = image.mode in ("L", "LA")
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, image).convert("L" if grey else "RGB")
    if image.mode in ("L", "1"):
        return image.convert("L")
    return image if image.mode == "RGB" else image.convert("RGB")


def encode_png(pixels: np.ndarray, *, optimize: bool = False) -> bytes:
    """A uint8 image (C x H x W) as a PNG file."""
    buffer = io.BytesIO()
    flat = pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0))
    Image.fromarray(flat).save(buffer, "PNG", optimize=optimize)
    return buffer.getvalue()


def data_url(pixels: np.ndarray) -> str:
    """A uint8 image (C x H x W) as the address of an image inside of a page."""
    return f"data:image/png;base64,{base64.b64encode(encode_png(pixels, optimize=True)).decode()}"


def images_in(folder: Path) -> list[Path]:
    """The image files right in a folder, by name."""
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)


def fit_square(image: Image.Image, size: int) -> Image.Image:
    """The rule for images of other sizes: scale the shorter side to `size`, cut the middle square out.

    Lines first and columns then, each rounded: in one go Pillow chooses the order by shape, and by its version.
    """
    bilinear, side = Image.Resampling.BILINEAR, min(image.size)
    left, top = ((length - side) / 2 for length in image.size)
    margin = side // size + 1  # of the filter
    first, last = max(0, int(top) - margin), min(image.height, math.ceil(top) + side + margin)
    narrow = image.resize((size, last - first), bilinear, box=(left, first, left + side, last))
    return narrow.resize((size, size), bilinear, box=(0, top - first, size, top - first + side))


def read_square(file: Path | BinaryIO, size: int, channels: int, most_pixels: int | None = None) -> np.ndarray:
    """The middle square of an image (channels x size x size)."""
    image = fit_square(read_image(file, most_pixels=most_pixels), size).convert("L" if channels == 1 else "RGB")
    pixels = np.array(image)
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def decode_now(paths: Sequence[Path], size: int, channels: int, what: str) -> Tensor:
    """All files as one uint8 array (N x channels x size x size) in memory."""
    array = np.empty((len(paths), channels, size, size), dtype=np.uint8)
    _fill(array, paths, size, channels, what)
    return torch.from_numpy(array)


def decode(paths: Sequence[Path], size: int, channels: int, what: str) -> Tensor:
    """All files as one uint8 array (N x channels x size x size), decoded once and mapped from the cache afterwards.

    The cache is named by a digest of names, sizes and times. Two processes that build it at once write a file each and
    rename it over the same name with the same content.
    """
    target = decoded_root() / f"{files_digest(paths, f'{size} {channels}')}.npy"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(target.parent)
        with atomic_path(target) as partial:
            array = np.lib.format.open_memmap(
                partial, mode="w+", dtype=np.uint8, shape=(len(paths), channels, size, size)
            )
            _reserve(partial, array.nbytes)
            _fill(array, paths, size, channels, what)
            array.flush()
    return torch.from_numpy(np.load(target, mmap_mode="c"))


def _reserve(path: Path, size: int) -> None:
    """Take the room on disk in advance: writing to a map of a full disk would kill the process."""
    if not hasattr(os, "posix_fallocate"):  # macOS, Windows
        return
    try:
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return  # a file system that cannot reserve
        raise UserError(
            f"{path.parent} has no room for {size:,} bytes of decoded images: make room, or set UPCL_CACHE"
        ) from None


def _remove_stale(folder: Path) -> None:
    """What processes that were killed days ago left behind."""
    for partial in folder.glob(f"*{PARTIAL}"):
        with contextlib.suppress(OSError):
            if time.time() - partial.stat().st_mtime > STALE_SECONDS:
                partial.unlink()


def files_digest(paths: Sequence[Path], purpose: str) -> str:
    """A name for what is made of these files as they are now."""
    digest = hashlib.sha256(f"{CACHE_VERSION} {PIL.__version__} {purpose}\n".encode())
    for path in paths:
        about = path.stat()
        digest.update(f"{path.resolve()}\0{about.st_size}\0{about.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]


def _fill(array: Iterable[np.ndarray], paths: Sequence[Path], size: int, channels: int, what: str) -> None:
    def one(work: tuple[np.ndarray, Path]) -> None:
        place, path = work
        try:
            place[:] = read_square(path, size, channels)
        except BrokenImageError as error:
            raise UserError(f"{path} cannot be read: {error}. Replace or remove it") from None

    with ThreadPoolExecutor(os.cpu_count()) as pool, track(f"decoding {what}", len(paths)) as advance:
        for _ in pool.map(one, zip(array, paths, strict=True)):
            advance(1)
