"""Where images come from: files, folders, standard input or memory; decoded into what a model takes."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from upcl.core.errors import UserError
from upcl.data.io.images import IMAGE_SUFFIXES, read_square
from upcl.data.io.paths import printable_path

from .bundle import ModelSpec

ImageSource = Path | bytes | np.ndarray
"""An image file, the content of one, or uint8 pixels (H x W or H x W x 3)."""

FORWARD_PIXELS = 8 * 224**2
MAX_STDIN_BYTES = 100_000_000
MAX_STDIN_LINES = 1_000_000
MAX_PATH_BYTES = 4096
SIGNATURES = (b"\xff\xd8", b"\x89PNG", b"GIF8", b"BM", b"II*\0", b"MM\0*")


def list_sources(paths: Sequence[Path], stdin: BinaryIO) -> list[Path | bytes]:
    """List the images that paths stand for.

    Args:
        paths: files are taken as they are; folders are searched for images; `-` is standard input, which holds either
            one image or the paths of images, one per line.
        stdin: standard input in binary mode.

    Raises:
        UserError: if a folder contains no images, or standard input holds too much.

    Example:
        >>> list_sources([Path("a.jpg"), Path("-")], io.BytesIO(b"b.jpg\\nc.png\\n")) == [
        ...     Path("a.jpg"), Path("b.jpg"), Path("c.png")]
        True
    """
    found: list[Path | bytes] = []
    for path in paths:
        if str(path) == "-":
            found += _from_stdin(stdin.read(MAX_STDIN_BYTES + 1))
        elif path.is_dir():
            found += images_in_folder(path)
        else:
            found.append(path)
    return found


def _from_stdin(content: bytes) -> list[Path | bytes]:
    if len(content) > MAX_STDIN_BYTES or content.count(b"\n") > MAX_STDIN_LINES:
        limits = f"{MAX_STDIN_BYTES:,} bytes or {MAX_STDIN_LINES:,} lines"
        raise UserError(f"standard input holds more than {limits}: name the image, or divide the list of paths")
    lines = [] if is_image(content) else [line for line in content.splitlines() if line.strip()]
    if max(map(len, lines), default=0) > MAX_PATH_BYTES:  # no list of paths
        return [content]
    return [Path(os.fsdecode(line)) for line in lines] or [content]


def images_in_folder(folder: Path) -> list[Path]:
    """List the images in a folder and its sub-folders, sorted.

    Args:
        folder: the folder.

    Raises:
        UserError: if there are none.

    Example:
        >>> images_in_folder(Path("missing"))
        Traceback (most recent call last):
        upcl.core.errors.UserError: missing contains no images (.bmp, .gif, .jpeg, .jpg, .png, .tif, .tiff, .webp)
    """
    images = sorted(p for p in folder.rglob("[!.]*") if p.suffix.lower() in IMAGE_SUFFIXES and p.is_file())
    if not images:
        raise UserError(f"{printable_path(folder)} contains no images ({', '.join(sorted(IMAGE_SUFFIXES))})")
    return images


def is_image(content: bytes) -> bool:
    """Whether bytes start like an image file, as opposed to a list of paths.

    Args:
        content: the bytes, or at least the first twelve of them.

    Example:
        >>> is_image(b"\\x89PNG..."), is_image(b"photos/robin.jpg")
        (True, False)
    """
    return content.startswith(SIGNATURES) or content[8:12] == b"WEBP"


def decode_image(source: ImageSource, spec: ModelSpec, max_pixels: int | None = None) -> Tensor:
    """Decode one image into the input of a model: the middle square, resized, uint8 (C x size x size).

    Args:
        source: the image.
        spec: the model's spec, with the size and the number of channels.
        max_pixels: reject larger images; by default the limit of `upcl.data.io.images`.

    Raises:
        BrokenImageError: if the image cannot be decoded or is too large.

    Example:
        >>> from upcl.model.bundle import ModelSpec
        >>> spec = ModelSpec("upcl", {}, "small", channels=1, size=8, mean=(0.5,), std=(0.2,), memory="20/class")
        >>> decode_image(np.zeros((30, 20, 3), np.uint8), spec).shape
        torch.Size([1, 8, 8])
    """
    return torch.from_numpy(read_square(_as_file(source), spec.size, spec.channels, max_pixels))


def fit_images(images: Tensor, spec: ModelSpec) -> Tensor:
    """Bring images in memory to the size and the channels of a model.

    Args:
        images: uint8 images (N x C x H x W) of any size, grey or colour.
        spec: the model's spec.

    Returns:
        uint8 images (N x channels x size x size); the given ones if they fit.

    Example:
        >>> from upcl.model.bundle import ModelSpec
        >>> spec = ModelSpec("ncm", {}, "small", 3, 32, (0.5,) * 3, (0.2,) * 3, "20/class")
        >>> fit_images(torch.zeros(5, 1, 8, 8, dtype=torch.uint8), spec).shape
        torch.Size([5, 3, 32, 32])
    """
    if images.shape[1:] == (spec.channels, spec.size, spec.size):
        return images
    pixels = images.permute(0, 2, 3, 1).numpy()
    pixels = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
    return torch.stack([decode_image(np.ascontiguousarray(image), spec) for image in pixels])


def split_images(images: Tensor) -> tuple[Tensor, ...]:
    """Split images into parts that a network looks at one after the other: its memory grows with their pixels.

    Args:
        images: images (N x C x H x W), or features (N x d), which are not split.

    Example:
        >>> [len(part) for part in split_images(torch.zeros(20, 3, 224, 224, dtype=torch.uint8))]
        [8, 8, 4]
    """
    if images.ndim == 2:
        return (images,)
    return torch.split(images, max(1, FORWARD_PIXELS // math.prod(images.shape[2:])))


def _as_file(source: ImageSource) -> Path | BinaryIO:
    if isinstance(source, Path):
        return source
    if isinstance(source, bytes):
        return io.BytesIO(source)
    buffer = io.BytesIO()
    Image.fromarray(source).save(buffer, "BMP")
    buffer.seek(0)
    return buffer
