from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from tests.data.files import noise
from upcl.data.io import strips
from upcl.data.io.images import open_image, read_image, read_square
from upcl.data.io.strips import DecodedImage


def reference(image: Image.Image) -> Image.Image:
    """The plain way: convert the whole image at once."""
    if image.mode.startswith(("I", "F")):
        values = np.asarray(image, dtype=np.float64)
        top = 65535.0 if image.mode.startswith("I") else max(float(values.max()), 1.0)
        return Image.fromarray(np.clip(values / top * 255, 0, 255).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        grey = image.mode in ("L", "LA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, image.convert("RGBA")).convert("L" if grey else "RGB")
    return image.convert("L" if image.mode in ("L", "1") else "RGB")


def sample(mode: str, height: int = 23, width: int = 31) -> tuple[Image.Image, dict[str, Any]]:
    """An image of a mode, and options to save it; `mode+` has a transparent colour."""
    colour, rng = Image.fromarray(noise(0, height, width)), np.random.default_rng(1)
    if mode == "I;16":
        return Image.fromarray(rng.integers(0, 65536, (height, width), dtype=np.uint16)), {}
    if mode == "I":
        return Image.fromarray(rng.integers(0, 90_000, (height, width), dtype=np.int32)), {}
    if mode == "F":
        return Image.fromarray((500 * rng.random((height, width))).astype(np.float32)), {}
    if mode in ("RGBA", "LA"):
        return Image.fromarray(rng.integers(0, 256, (height, width, 4), dtype=np.uint8)).convert(mode), {}
    image = colour.convert(mode.rstrip("+"))
    return image, {"transparency": image.getpixel((0, 0))} if mode.endswith("+") else {}


CASES = [
    *((mode, "PNG") for mode in ("RGB", "RGBA", "L", "LA", "P", "1", "I;16", "P+", "L+", "RGB+")),
    *((mode, "TIFF") for mode in ("RGB", "RGBA", "CMYK", "YCbCr", "I", "F", "I;16")),
    *(("RGB", name) for name in ("BMP", "GIF", "WEBP", "JPEG")),
    ("CMYK", "JPEG"),
    ("P+", "GIF"),
]


@pytest.mark.parametrize("strip_pixels", [1, 100, 2**20])
@pytest.mark.parametrize(("mode", "format"), CASES)
def test_strips_equal_the_whole_image_converted_at_once(
    mode: str,
    format: str,  # noqa: A002
    strip_pixels: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strips, "STRIP_PIXELS", strip_pixels)
    image, options = sample(mode)
    file = io.BytesIO()
    image.save(file, format, **options)
    with Image.open(file) as opened:
        opened.load()
        expected = reference(opened)
    found = read_image(file)
    assert found.mode == expected.mode and np.array_equal(np.asarray(found), np.asarray(expected))
    with open_image(file) as decoded:
        assert b"".join(strip.tobytes() for strip in decoded.strips()) == expected.tobytes()


@pytest.mark.parametrize("orientation", range(10))
def test_strips_are_upright(orientation: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "STRIP_PIXELS", 70)
    image, exif = sample("RGBA")[0], Image.Exif()
    exif[0x0112] = orientation
    for format in ("PNG", "WEBP", "TIFF"):  # noqa: A001
        file = io.BytesIO()
        image.save(file, format, exif=exif, **({"lossless": True, "exact": True} if format == "WEBP" else {}))
        with Image.open(file) as opened:
            expected = reference(ImageOps.exif_transpose(opened))
        assert np.array_equal(np.asarray(read_image(file)), np.asarray(expected)), format
        with open_image(file) as decoded:
            assert decoded.size == expected.size
            rows = np.concatenate([np.asarray(strip) for strip in decoded.strips(3, 17)])
        assert np.array_equal(rows, np.asarray(expected)[3:17]), format


@pytest.mark.parametrize(("height", "width"), [(23, 31), (31, 23), (40, 7), (7, 40), (16, 16), (3, 90)])
@pytest.mark.parametrize("size", [1, 5, 16, 50])
def test_square_does_not_depend_on_strips(height: int, width: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    image = Image.fromarray(noise(3, height, width))
    bilinear, side = Image.Resampling.BILINEAR, min(image.size)
    left, top = (width - side) / 2, (height - side) / 2
    narrow = image.resize((size, height), bilinear, box=(left, 0, left + side, height))
    expected = narrow.resize((size, size), bilinear, box=(0, top, size, top + side))
    for strip_pixels in (1, 100, 2**20):
        monkeypatch.setattr(strips, "STRIP_PIXELS", strip_pixels)
        assert np.array_equal(np.asarray(DecodedImage(image).square(size)), np.asarray(expected))


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_read_without_warnings(odd: float) -> None:
    values = np.full((4, 4), 2.0, np.float32)
    values[0, 0], values[1, 1] = odd, 1.0
    file = io.BytesIO()
    Image.fromarray(values).save(file, "TIFF")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pixels = read_square(file, 4, 1)[0]
    assert pixels[0, 0] == (255 if odd == np.inf else 0)
    assert pixels[1, 1] == 127 and pixels[2, 2] == 255, "finite values are scaled as if the odd one were not there"


def test_image_without_any_finite_value_is_black() -> None:
    file = io.BytesIO()
    Image.fromarray(np.full((4, 4), np.nan, np.float32)).save(file, "TIFF")
    assert not read_square(file, 4, 1).any()
