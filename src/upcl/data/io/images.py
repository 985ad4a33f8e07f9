"""Reading and writing of single images: one careful reader for every kind of file."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"}
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")  # no other reader of Pillow runs: some start other programs
MAX_PIXELS = 100_000_000


class BrokenImageError(Exception):
    """A file cannot be read as an image; the message explains why.

    Example:
        >>> read_image(io.BytesIO(b"plain text"))
        Traceback (most recent call last):
        upcl.data.io.images.BrokenImageError: not a supported image format
    """


class UnreachableImageError(BrokenImageError):
    """The operating system refuses to read a file at the moment; the image itself may be intact.

    Example:
        >>> read_image(Path("does-not-exist.jpg"))
        Traceback (most recent call last):
        upcl.data.io.images.UnreachableImageError: No such file or directory
    """


def read_image(
    file: Path | BinaryIO,
    oversampling: Callable[[int, int], float] | None = None,
    max_pixels: int | None = None,
) -> Image.Image:
    """Read the first frame of an image as 8-bit RGB, or as 8-bit grey if the file is grey.

    The EXIF orientation is applied, transparency is blended with white, and 16-bit values are scaled to 8 bits.

    Args:
        file: a path, or a binary file that is open for reading.
        oversampling: maps width and height to the factor by which the image is larger than needed. A JPEG is then
            decoded at a half, a quarter or an eighth of its size, but never at a lower resolution than needed.
        max_pixels: refuse images with more pixels than this; 100 million by default.

    Raises:
        BrokenImageError: the file is not an image, is damaged, or has too many pixels.
        UnreachableImageError: the operating system reports an error.

    Example:
        >>> file = io.BytesIO(encode_png(np.zeros((3, 4, 6), np.uint8)))
        >>> read_image(file).size
        (6, 4)
    """
    try:
        with Image.open(file, formats=FORMATS) as image:
            if image.width * image.height > (limit := max_pixels or MAX_PIXELS):
                raise BrokenImageError(f"{image.width} x {image.height} pixels exceed the limit of {limit:,}")
            if oversampling and (factor := oversampling(*image.size)) >= 2:
                image.draft(None, (math.ceil(image.width / factor), math.ceil(image.height / factor)))
            image.load()
            ImageOps.exif_transpose(image, in_place=True)
            return _to_grey_or_rgb(image)
    except (BrokenImageError, MemoryError):
        raise
    except UnidentifiedImageError:
        raise BrokenImageError("not a supported image format") from None
    except Exception as error:  # Pillow's plugins raise many kinds for damaged files; its limit on pixels may be lower
        if isinstance(error, OSError) and error.errno is not None:
            raise UnreachableImageError(error.strerror) from None
        raise BrokenImageError(str(error)) from None


def _to_grey_or_rgb(image: Image.Image) -> Image.Image:
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


def fit_square(image: Image.Image, size: int) -> Image.Image:
    """Scale the shorter side of an image to `size` and crop the central square.

    Rows are resized first and columns second, with rounding in between: in a single call, Pillow chooses the order by
    the shape of the image, and differently in different versions.

    Args:
        image: an image of any size.
        size: height and width of the result.

    Example:
        >>> fit_square(Image.new("RGB", (40, 30)), 8).size
        (8, 8)
    """
    bilinear, side = Image.Resampling.BILINEAR, min(image.size)
    left, top = ((length - side) / 2 for length in image.size)
    margin = side // size + 1  # of the filter
    first, last = max(0, int(top) - margin), min(image.height, math.ceil(top) + side + margin)
    narrow = image.resize((size, last - first), bilinear, box=(left, first, left + side, last))
    return narrow.resize((size, size), bilinear, box=(0, top - first, size, top - first + side))


def read_square(file: Path | BinaryIO, size: int, channels: int, max_pixels: int | None = None) -> np.ndarray:
    """Read the central square of an image.

    Args:
        file: a path, or a binary file that is open for reading.
        size: height and width of the result.
        channels: 1 for grey, 3 for RGB.
        max_pixels: as in `read_image`.

    Returns:
        A uint8 array (channels x size x size).

    Raises:
        BrokenImageError: as in `read_image`.

    Example:
        >>> read_square(io.BytesIO(encode_png(np.zeros((3, 4, 6), np.uint8))), size=2, channels=1).tolist()
        [[[0, 0], [0, 0]]]
    """
    image = fit_square(read_image(file, max_pixels=max_pixels), size).convert("L" if channels == 1 else "RGB")
    pixels = np.array(image)
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def encode_png(pixels: np.ndarray, *, optimize: bool = False) -> bytes:
    """Encode an image as the content of a PNG file.

    Args:
        pixels: a uint8 image (C x H x W) with 1 or 3 channels.
        optimize: spend more time on a smaller file.

    Example:
        >>> encode_png(np.zeros((1, 2, 2), np.uint8))[1:4]
        b'PNG'
    """
    buffer = io.BytesIO()
    flat = pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0))
    Image.fromarray(flat).save(buffer, "PNG", optimize=optimize)
    return buffer.getvalue()


def data_url(pixels: np.ndarray) -> str:
    """Encode an image as a `data:` URL that can be embedded in a web page.

    Args:
        pixels: a uint8 image (C x H x W) with 1 or 3 channels.

    Example:
        >>> data_url(np.zeros((1, 2, 2), np.uint8))[:22]
        'data:image/png;base64,'
    """
    return f"data:image/png;base64,{base64.b64encode(encode_png(pixels, optimize=True)).decode()}"


def list_images(folder: Path) -> list[Path]:
    """List the image files directly in a folder, sorted by name.

    Args:
        folder: an existing folder; its sub-folders are not searched.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("b.JPG", "a.png", "notes.txt"):
        ...     (folder / name).touch()
        >>> [path.name for path in list_images(folder)]
        ['a.png', 'b.JPG']
    """
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES)
