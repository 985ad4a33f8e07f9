"""Decoded images that are turned upright and converted to 8 bits strip by strip, so that no second image is needed."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from PIL import Image

STRIP_PIXELS = 2**20
DEEPEST = 65535.0  # the largest value of 16 bits

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class DecodedImage:
    """A decoded image of any mode, as rows of 8-bit RGB, or of 8-bit grey if it is grey.

    Transparency is blended with white, 16-bit values are scaled to 8 bits, and floating-point values are scaled to the
    largest one, if it exceeds 1. NaN becomes black.

    Args:
        image: the image; it is loaded.
        orientation: the value of the EXIF tag, from 1 to 8; any other value means upright.

    Example:
        >>> image = DecodedImage(Image.new("LA", (3, 2), (0, 0)), orientation=6)
        >>> image.size, image.mode, [strip.getpixel((0, 0)) for strip in image.strips()]
        ((2, 3), 'L', [255])
    """

    def __init__(self, image: Image.Image, orientation: int = 1) -> None:
        image.load()
        self._image, self._turn = image, _TURNS.get(orientation)
        self._transparent = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
        self._deep = image.mode.startswith(("I", "F"))
        grey = self._deep or image.mode in ("L", "LA") or (image.mode == "1" and not self._transparent)
        self.mode = "L" if grey else "RGB"
        self.size = image.size[::-1] if orientation in (5, 6, 7, 8) else image.size
        self._top = self._largest() if image.mode.startswith("F") else DEEPEST

    def strips(self, first: int = 0, last: int | None = None) -> Iterator[Image.Image]:
        """Convert rows, about a million pixels at a time.

        Args:
            first: the first row.
            last: the row after the last one; by default the height.

        Yields:
            Consecutive strips, from top to bottom.
        """
        width, height = self.size
        last = height if last is None else last
        num = max(1, STRIP_PIXELS // width)
        for start in range(first, last, num):
            yield self._convert(self._upright(start, min(start + num, last)))

    def whole(self) -> Image.Image:
        """All rows as one image. It may be the decoded one, which is then handed over: nothing else can be read."""
        if self._turn is None and self._image.mode == self.mode and not self._transparent:
            whole = self._image
            self.close()
            return whole
        whole, row = Image.new(self.mode, self.size), 0
        for strip in self.strips():
            whole.paste(strip, (0, row))
            row += strip.height
        return whole

    def square(self, size: int) -> Image.Image:
        """Scale the shorter side to `size` and crop the central square.

        Rows are resized first and columns second, with rounding in between: in a single call, Pillow chooses the order
        by the shape of the image, and differently in different versions.

        Args:
            size: height and width of the result.
        """
        bilinear, side = Image.Resampling.BILINEAR, min(self.size)
        left, top = ((length - side) / 2 for length in self.size)
        margin = side // size + 1  # of the filter
        first, last = max(0, int(top) - margin), min(self.size[1], math.ceil(top) + side + margin)
        narrow, row = Image.new(self.mode, (size, last - first)), 0
        for strip in self.strips(first, last):
            narrow.paste(
                strip.resize((size, strip.height), bilinear, box=(left, 0, left + side, strip.height)), (0, row)
            )
            row += strip.height
        return narrow.resize((size, size), bilinear, box=(0, top - first, size, top - first + side))

    def close(self) -> None:
        """Let go of the pixels: nothing can be read any more."""
        self._image = Image.new(self.mode, (0, 0))

    def _upright(self, first: int, last: int) -> Image.Image:
        """Rows of the upright image, still in the mode of the file."""
        width, height = self._image.size
        if self._turn in (Image.Transpose.ROTATE_180, Image.Transpose.FLIP_TOP_BOTTOM):
            box = (0, height - last, width, height - first)
        elif self._turn in (Image.Transpose.TRANSPOSE, Image.Transpose.ROTATE_270):
            box = (first, 0, last, height)
        elif self._turn in (Image.Transpose.TRANSVERSE, Image.Transpose.ROTATE_90):
            box = (width - last, 0, width - first, height)
        else:
            box = (0, first, width, last)
        strip = self._image if box == (0, 0, width, height) else self._image.crop(box)
        return strip if self._turn is None else strip.transpose(self._turn)

    def _convert(self, strip: Image.Image) -> Image.Image:
        if self._deep:
            values = np.asarray(strip, dtype=np.float64) / self._top * 255
            return Image.fromarray(np.clip(np.nan_to_num(values, nan=0.0), 0, 255).astype(np.uint8))
        if self._transparent:
            strip = strip.convert("RGBA")
            strip = Image.alpha_composite(Image.new("RGBA", strip.size, (255, 255, 255, 255)), strip)
        return strip if strip.mode == self.mode else strip.convert(self.mode)

    def _largest(self) -> float:
        """The largest finite value, but at least 1."""
        width, height = self._image.size
        num, largest = max(1, STRIP_PIXELS // width), 1.0
        for row in range(0, height, num):
            values = np.asarray(self._image.crop((0, row, width, min(row + num, height))))
            largest = max(largest, float(values.max(where=np.isfinite(values), initial=1.0)))
        return largest
