"""Reading and writing of single images: one careful reader for every kind of file."""

from __future__ import annotations

import base64
import errno
import io
import math
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError
from PIL.ImageFile import ImageFile

from .image_memory import BUDGET, MAX_BYTES, decoding_bytes
from .strips import DecodedImage

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"}
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")  # no other reader of Pillow runs: some start other programs
MAX_PIXELS = 100_000_000
MAX_RLE_PIXELS = 1_000_000  # of a BMP file: Pillow decodes them one by one in Python
MAX_FILE_BYTES = 400_000_000  # 100 million pixels that are not compressed


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


def open_file(path: Path) -> io.BufferedReader:
    """Open a regular file for reading; a pipe or a device, whose end may never come, and a huge file are refused.

    Args:
        path: the file.

    Raises:
        OSError: the file cannot be opened, is not a regular file, or has more than `MAX_FILE_BYTES`.

    Example:
        >>> open_file(Path("/dev/zero"))
        Traceback (most recent call last):
        OSError: [Errno 22] not a regular file: '/dev/zero'
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):  # a folder is refused by the system
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if found.st_size > MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, f"larger than {MAX_FILE_BYTES:,} bytes", str(path))
    return path.open("rb")


@contextmanager
def open_image(
    file: Path | BinaryIO,
    oversampling: Callable[[int, int], float] | None = None,
    max_pixels: int | None = None,
) -> Iterator[DecodedImage]:
    """Decode the first frame of an image, and convert it as far as it is used.

    The EXIF orientation is applied. Threads share `MAX_BYTES` of memory: a thread waits until there is enough for its
    image, and holds it until the block ends.

    Args:
        file: a path, or a binary file that is open for reading.
        oversampling: maps width and height to the factor by which the image is larger than needed. A JPEG is then
            decoded at a half, a quarter or an eighth of its size, but never at a lower resolution than needed.
        max_pixels: refuse images with more pixels than this; 100 million by default.

    Raises:
        BrokenImageError: the file is not an image, is damaged, has too many pixels, or takes too much memory.
        UnreachableImageError: the operating system reports an error.

    Example:
        >>> with open_image(io.BytesIO(encode_png(np.zeros((3, 4, 6), np.uint8)))) as image:
        ...     image.size, image.square(2).size
        ((6, 4), (2, 2))
    """
    with _opened(file) as (image, stream):
        width, height = image.size
        if width * height > (limit := max_pixels or MAX_PIXELS):
            raise BrokenImageError(f"{width} x {height} pixels exceed the limit of {limit:,}")
        if oversampling and (factor := oversampling(width, height)) >= 2:
            image.draft(None, (math.ceil(width / factor), math.ceil(height / factor)))
        if any(codec == "bmp_rle" for codec, *_ in image.tile) and width * height > MAX_RLE_PIXELS:
            raise BrokenImageError(
                f"more than {MAX_RLE_PIXELS:,} pixels of a run-length encoded BMP: convert it to PNG"
            )
        num_bytes = decoding_bytes(image, stream, (width, height))
        if num_bytes > MAX_BYTES:
            raise BrokenImageError(
                f"decoding {width} x {height} pixels of {image.format} takes {num_bytes:,} bytes, more than "
                f"{MAX_BYTES:,}: scale the image down, or convert it to PNG"
            )
        with BUDGET.reserve(num_bytes):
            image.load()
            decoded = DecodedImage(image, image.getexif().get(ExifTags.Base.Orientation, 1))
            del image  # the only reference left is freed below, before the next thread may go on
            try:
                yield decoded
            finally:
                decoded.close()


def image_size(file: Path | BinaryIO) -> tuple[int, int]:
    """Read width and height from the header of an image.

    Args:
        file: a path, or a binary file that is open for reading.

    Raises:
        BrokenImageError: the file is not an image, or its header is damaged.
        UnreachableImageError: the operating system reports an error.

    Example:
        >>> image_size(io.BytesIO(encode_png(np.zeros((3, 4, 6), np.uint8))))
        (6, 4)
    """
    with _opened(file) as (image, _):
        return image.size


@contextmanager
def _opened(file: Path | BinaryIO) -> Iterator[tuple[ImageFile, BinaryIO]]:
    """An image whose header was read, and its file; whatever fails inside of the block is one of our errors."""
    try:
        with open_file(file) if isinstance(file, Path) else nullcontext(file) as stream:
            yield Image.open(stream, formats=FORMATS), stream
    except (BrokenImageError, MemoryError):
        raise
    except UnidentifiedImageError:
        raise BrokenImageError("not a supported image format") from None
    except Exception as error:  # Pillow's plugins raise many kinds for damaged files; its limit on pixels may be lower
        if isinstance(error, OSError) and error.errno is not None:
            raise UnreachableImageError(error.strerror) from None
        raise BrokenImageError(str(error)) from None


def read_image(
    file: Path | BinaryIO,
    oversampling: Callable[[int, int], float] | None = None,
    max_pixels: int | None = None,
) -> Image.Image:
    """Read the first frame of an image as 8-bit RGB, or as 8-bit grey if the file is grey.

    It is converted as described at `DecodedImage`. `open_image` takes less memory if the whole image is not needed.

    Args:
        file: as in `open_image`.
        oversampling: as in `open_image`.
        max_pixels: as in `open_image`.

    Raises:
        BrokenImageError: as in `open_image`.

    Example:
        >>> file = io.BytesIO(encode_png(np.zeros((3, 4, 6), np.uint8)))
        >>> read_image(file).size
        (6, 4)
    """
    with open_image(file, oversampling, max_pixels) as image:
        return image.whole()


def fit_square(image: Image.Image, size: int) -> Image.Image:
    """Scale the shorter side of an image to `size` and crop the central square, as `DecodedImage.square` does.

    Args:
        image: an image of any size.
        size: height and width of the result.

    Example:
        >>> fit_square(Image.new("RGB", (40, 30)), 8).size
        (8, 8)
    """
    return DecodedImage(image).square(size)


def read_square(file: Path | BinaryIO, size: int, channels: int, max_pixels: int | None = None) -> np.ndarray:
    """Read the central square of an image.

    Args:
        file: a path, or a binary file that is open for reading.
        size: height and width of the result.
        channels: 1 for grey, 3 for RGB.
        max_pixels: as in `open_image`.

    Returns:
        A uint8 array (channels x size x size).

    Raises:
        BrokenImageError: as in `open_image`.

    Example:
        >>> read_square(io.BytesIO(encode_png(np.zeros((3, 4, 6), np.uint8))), size=2, channels=1).tolist()
        [[[0, 0], [0, 0]]]
    """
    with open_image(file, max_pixels=max_pixels) as image:
        pixels = np.array(image.square(size).convert("L" if channels == 1 else "RGB"))
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
