"""Memory for decoding: what an image takes, one budget for all threads, and memory that goes back to the system."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from PIL import ExifTags, Image, JpegImagePlugin, TiffImagePlugin

from upcl.core.allocation import give_back_memory

MAX_BYTES = 400 * 2**20  # for one image, and for all that are decoded at the same time
TRIM_BYTES = 100_000_000  # decoded until free memory is given back
PIXEL_BYTES = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2, "I;16L": 2, "I;16N": 2}  # of Pillow's modes; others: 4
WEBP_BYTES = 16  # per pixel: two canvases of the decoder, their copy, and the image
COEFFICIENT_BYTES = 2
ROW_BYTES = 8 + 3  # Pillow keeps the address of every row, and rounds its length up to four bytes
START_OF_SCAN = 0xDA  # the marker in a JPEG file
YCBCR = 6  # colours of a TIFF file


def decoding_bytes(image: Image.Image, file: BinaryIO, full_size: tuple[int, int]) -> int:
    """The memory that decoding an image takes, from its header.

    Pillow decodes into an array of the whole image. On top of this, libwebp makes canvases of its own, libjpeg keeps
    the coefficients of all pixels unless its first scan is complete, and libtiff decodes whole strips.

    Args:
        image: an image that was opened but not loaded.
        file: its file, which libwebp and libtiff hold in memory.
        full_size: width and height in the file; those of a JPEG in draft mode are smaller.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (100, 10)).save(file, "PNG")
        >>> with Image.open(file, formats=["PNG"]) as image:
        ...     decoding_bytes(image, file, image.size)
        4110
    """
    return _decoder_bytes(image, file, full_size) + image.height * ROW_BYTES


def _decoder_bytes(image: Image.Image, file: BinaryIO, full_size: tuple[int, int]) -> int:
    num_bytes = image.width * image.height * PIXEL_BYTES.get(image.mode, 4)
    if image.format == "WEBP":
        return image.width * image.height * WEBP_BYTES + _num_bytes(file)
    if isinstance(image, JpegImagePlugin.JpegImageFile):
        return num_bytes + math.prod(full_size) * _coefficient_bytes(image, file)
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        num_bytes *= 1 if image.tag_v2.get(ExifTags.Base.Orientation, 1) == 1 else 2  # Pillow turns it upright
        return num_bytes + (_strip_bytes(image) + _num_bytes(file) if image.info.get("compression") != "raw" else 0)
    return num_bytes


def _num_bytes(file: BinaryIO) -> int:
    position = file.tell()
    num_bytes = file.seek(0, os.SEEK_END)
    file.seek(position)
    return num_bytes


def _coefficient_bytes(image: JpegImagePlugin.JpegImageFile, file: BinaryIO) -> int:
    """Bytes per pixel that libjpeg keeps: none if the first scan holds all colours completely."""
    num_colours, position = len(image.getbands()), file.tell()
    complete = "progressive" not in image.info and _num_scanned(file) == num_colours
    file.seek(position)
    return 0 if complete else num_colours * COEFFICIENT_BYTES


def _num_scanned(file: BinaryIO) -> int:
    """Number of colours in the first scan of a JPEG file; 0 if its segments are not as they should be."""
    file.seek(2)
    while len(head := file.read(4)) == 4 and head[0] == 0xFF and head[1] >= 0xC0 and not 0xD0 <= head[1] <= 0xD9:
        if head[1] == START_OF_SCAN:
            return int.from_bytes(file.read(1))
        if (length := int.from_bytes(head[2:])) < 2:
            break
        file.seek(length - 2, os.SEEK_CUR)
    return 0


def _strip_bytes(image: TiffImagePlugin.TiffImageFile) -> int:
    """Size of one strip or tile after it is uncompressed; colours of JPEG are converted in a second one."""
    tags = image.tag_v2
    width, height = tags.get(TiffImagePlugin.TILEWIDTH, 0), tags.get(TiffImagePlugin.TILELENGTH, 0)
    if not width:
        width, height = image.width, min(image.height, tags.get(TiffImagePlugin.ROWSPERSTRIP, image.height))
    num_bits = max(tags.get(TiffImagePlugin.BITSPERSAMPLE, (1,))) * tags.get(TiffImagePlugin.SAMPLESPERPIXEL, 1)
    num_bits += 32 * (tags.get(TiffImagePlugin.PHOTOMETRIC_INTERPRETATION) == YCBCR)
    return int(width * height * num_bits) // 8


class MemoryBudget:
    """Bytes that threads may use at the same time. A thread that asks for more than is left waits.

    Args:
        total: the number of bytes.

    Example:
        >>> budget = MemoryBudget(1000)
        >>> with budget.reserve(600):
        ...     budget.available
        400
        >>> budget.available
        1000
    """

    def __init__(self, total: int) -> None:
        self.total = self.available = total
        self._used = 0  # since memory was given back
        self._changed = threading.Condition()

    @contextmanager
    def reserve(self, num_bytes: int) -> Iterator[None]:
        """Hold some bytes; afterwards free memory goes back to the system from time to time.

        Args:
            num_bytes: how many; more than the total counts as the total.
        """
        num_bytes = min(num_bytes, self.total)
        with self._changed:
            self._changed.wait_for(lambda: self.available >= num_bytes)
            self.available -= num_bytes
        try:
            yield
        finally:
            with self._changed:
                self._used += num_bytes
                if self._used >= TRIM_BYTES:  # before others may go on: what was freed here would add to theirs
                    self._used = 0
                    give_back_memory()
                self.available += num_bytes
                self._changed.notify_all()


BUDGET = MemoryBudget(MAX_BYTES)
