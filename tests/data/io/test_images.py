from __future__ import annotations

import base64
import io
import os
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import upcl
from tests.data.files import noise, png_of_claimed_size, save, smooth_image
from upcl.data.io.images import (
    BrokenImageError,
    UnreachableImageError,
    data_url,
    encode_png,
    fit_square,
    list_images,
    read_image,
    read_square,
)


@pytest.mark.parametrize("suffix", ["png", "bmp", "webp", "gif", "jpg", "tiff"])
def test_common_formats_are_read(tmp_path: Path, suffix: str) -> None:
    smooth_image(30, 20).save(tmp_path / f"a.{suffix}")
    image = read_image(tmp_path / f"a.{suffix}")
    assert image.size == (30, 20) and image.mode == "RGB"
    difference = np.asarray(image, dtype=int) - np.asarray(smooth_image(30, 20), dtype=int)
    assert np.abs(difference).mean() < 8


@pytest.mark.parametrize("mode", ["CMYK", "P", "YCbCr"])
def test_other_colour_modes_become_rgb(tmp_path: Path, mode: str) -> None:
    suffix = "png" if mode == "P" else "tiff"
    smooth_image(30, 20).convert(mode).save(tmp_path / f"a.{suffix}")
    assert read_image(tmp_path / f"a.{suffix}").mode == "RGB"


@pytest.mark.parametrize("mode", ["L", "1", "LA"])
def test_grey_images_stay_grey(tmp_path: Path, mode: str) -> None:
    smooth_image(30, 20).convert(mode).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").mode == "L"


def test_orientation_is_applied(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated by 90 degrees
    image = smooth_image(30, 20)
    image.save(tmp_path / "turned.png", exif=exif)
    upright = np.asarray(image.transpose(Image.Transpose.ROTATE_270))
    assert np.array_equal(np.asarray(read_image(tmp_path / "turned.png")), upright)


def test_transparency_is_blended_with_white(tmp_path: Path) -> None:
    Image.new("RGBA", (4, 4), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert read_image(tmp_path / "clear.png").getpixel((0, 0)) == (255, 255, 255)
    Image.new("RGBA", (4, 4), (255, 0, 0, 128)).save(tmp_path / "half.png")
    assert read_image(tmp_path / "half.png").getpixel((0, 0)) == (255, 127, 127)


def test_sixteen_bits_are_scaled_to_eight(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 65535], [32768, 256]], dtype=np.uint16)).save(tmp_path / "deep.png")
    assert np.asarray(read_image(tmp_path / "deep.png")).tolist() == [[0, 255], [127, 0]]


def test_binary_files_are_read() -> None:
    pixels = noise(1).transpose(2, 0, 1)
    image = read_image(io.BytesIO(encode_png(pixels)))
    assert np.array_equal(np.asarray(image), noise(1))


def test_damaged_files_explain_why(tmp_path: Path) -> None:
    intact = save(tmp_path / "intact.png", noise(0, 64, 64)).read_bytes()
    for content, reason in (
        (intact[: len(intact) // 2], "truncated"),
        (b"hello", "not a supported image format"),
        (b"", "not a supported image format"),
    ):
        (tmp_path / "damaged.png").write_bytes(content)
        with pytest.raises(BrokenImageError, match=reason) as caught:
            read_image(tmp_path / "damaged.png")
        assert not isinstance(caught.value, UnreachableImageError)


def test_errors_of_the_system_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UnreachableImageError, match="No such file"):
        read_image(tmp_path / "absent.png")
    with pytest.raises(UnreachableImageError, match="Is a directory"):
        read_image(tmp_path)


def test_limit_on_pixels_is_configurable(tmp_path: Path) -> None:
    path = save(tmp_path / "a.png", noise(0, 64, 64))
    assert read_image(path, max_pixels=64 * 64).size == (64, 64)
    with pytest.raises(BrokenImageError, match="64 x 64 pixels exceed the limit of 4,095"):
        read_image(path, max_pixels=64 * 64 - 1)
    with pytest.raises(BrokenImageError, match="exceed the limit of 100"):
        read_square(path, 8, 3, max_pixels=100)


@pytest.mark.parametrize("action", ["error", "always", "ignore"])
@pytest.mark.parametrize(("width", "height"), [(11_000, 10_000), (40_000, 40_000)])
def test_images_beyond_the_limit_are_broken_whatever_the_warning_filters(action: str, width: int, height: int) -> None:
    """Pillow warns of the first size and refuses the second."""
    with warnings.catch_warnings(record=True):
        warnings.simplefilter(action)  # type: ignore[arg-type]
        filters = list(warnings.filters)
        with pytest.raises(BrokenImageError, match="pixels") as caught:
            read_image(io.BytesIO(png_of_claimed_size(width, height)))
        assert warnings.filters == filters, "the caller's filters are left alone"
    if action != "error" and width == 11_000:
        assert str(caught.value) == "11000 x 10000 pixels exceed the limit of 100,000,000"


def test_large_jpeg_is_decoded_at_lower_resolution(tmp_path: Path) -> None:
    smooth_image(640, 480).save(tmp_path / "a.jpg", quality=95)
    coarse = read_image(tmp_path / "a.jpg", lambda width, height: min(width, height) / 32)
    assert coarse.size == (80, 60)  # an eighth
    exact = np.asarray(read_image(tmp_path / "a.jpg").resize((80, 60), Image.Resampling.BOX), dtype=int)
    assert np.abs(np.asarray(coarse, dtype=int) - exact).mean() < 2
    assert read_image(tmp_path / "a.jpg", lambda *_: 1.9).size == (640, 480)


@pytest.mark.parametrize(("width", "height"), [(40, 30), (30, 40), (32, 32), (8, 8), (5, 9), (200, 33)])
def test_fit_square_takes_the_centre(width: int, height: int) -> None:
    image = smooth_image(width, height)
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    expected = image.resize((8, 8), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side))
    found = fit_square(image, 8)
    assert np.abs(np.asarray(found, dtype=int) - np.asarray(expected, dtype=int)).max() <= 1


def test_read_square_converts_channels() -> None:
    colour = io.BytesIO(encode_png(noise(1).transpose(2, 0, 1)))
    assert read_square(colour, 16, 3).tolist() == noise(1).transpose(2, 0, 1).tolist()
    colour.seek(0)
    grey = read_square(colour, 16, 1)
    assert grey.shape == (1, 16, 16) and np.array_equal(grey[0], np.asarray(Image.fromarray(noise(1)).convert("L")))


@pytest.mark.parametrize("channels", [1, 3])
def test_png_and_data_url_keep_every_pixel(channels: int) -> None:
    pixels = noise(3).transpose(2, 0, 1)[:channels]
    content = base64.b64decode(data_url(pixels).removeprefix("data:image/png;base64,"))
    for encoded in (encode_png(pixels), content):
        assert np.array_equal(read_square(io.BytesIO(encoded), 16, channels), pixels)


def test_images_are_listed_by_extension(tmp_path: Path) -> None:
    for name in ("b.PNG", "a.jpeg", "notes.txt", "archive.zip"):
        (tmp_path / name).touch()
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "c.png").touch()
    assert [path.name for path in list_images(tmp_path)] == ["a.jpeg", "b.PNG"]


def test_only_supported_formats_are_opened_whatever_the_name(tmp_path: Path) -> None:
    """PostScript in a file named .jpg would start Ghostscript."""
    script = tmp_path / "photo.jpg"
    script.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n")
    with pytest.raises(BrokenImageError, match="not a supported image format"):
        read_image(script)


def test_large_run_length_encoded_bitmaps_are_refused() -> None:
    """Pillow decodes them in Python: one kilobyte would take half a minute."""

    def bitmap(width: int) -> io.BytesIO:
        header = struct.pack("<3I2H6I", 40, width, 1, 1, 8, 1, 0, 2835, 2835, 256, 0)
        return io.BytesIO(
            struct.pack("<2sI2HI", b"BM", 0, 0, 0, 54 + 1024) + header + bytes(1024) + b"\x03\x05\x00\x01"
        )

    with pytest.raises(BrokenImageError, match="more than 1,000,000 pixels of a run-length encoded BMP"):
        read_image(bitmap(49_000_000))
    assert read_image(bitmap(3)).size == (3, 1)


def test_pipes_devices_and_huge_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a pipe without a writer nor a device without an end may hang the reader."""
    os.mkfifo(tmp_path / "pipe.png")
    for path in (tmp_path / "pipe.png", Path("/dev/zero")):
        with pytest.raises(UnreachableImageError, match="not a regular file"):
            read_image(path)
    path = save(tmp_path / "a.png", noise(0))
    monkeypatch.setattr("upcl.data.io.images.MAX_FILE_BYTES", 10)
    with pytest.raises(UnreachableImageError, match="larger than 10 bytes"):
        read_image(path)


def test_only_files_of_known_formats_are_opened_anywhere() -> None:
    """A call of `Image.open` without `formats` would run every reader of Pillow, some of which start other programs."""
    package = Path(upcl.__file__).parent
    calls = [
        (path.name, line.strip())
        for path in package.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "Image.open(" in line
    ]
    assert len(calls) > 3
    assert not [call for call in calls if "formats=" not in call[1]]
