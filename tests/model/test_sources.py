from __future__ import annotations

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from upcl import UserError
from upcl.data.io.images import BrokenImageError, encode_png
from upcl.model import sources
from upcl.model.bundle import ModelSpec
from upcl.model.sources import decode_image, fit_images, is_image, list_sources, split_images

SPEC = ModelSpec("upcl", {}, "small", channels=3, size=8, mean=(0.5,) * 3, std=(0.2,) * 3, memory="20/class")
PIXELS = np.arange(3 * 8 * 8, dtype=np.uint8).reshape(3, 8, 8)


def test_files_folders_and_standard_input_are_listed(photos: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(photos / "extra", tmp_path / "extra"))
    (folder / "notes.txt").touch()
    (folder / ".hidden.png").touch()
    inside = [folder / "kind 1" / f"{k}.png" for k in range(9)]
    names = io.BytesIO(b"a.png\n\n  \nb c.jpg\n")
    listed = list_sources([Path("x.jpg"), folder, Path("-")], names)
    assert listed == [Path("x.jpg"), *inside, Path("a.png"), Path("b c.jpg")]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF"])
def test_an_image_on_standard_input_is_recognised(kind: str) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4)).save(buffer, kind)
    assert is_image(buffer.getvalue())
    assert list_sources([Path("-")], io.BytesIO(buffer.getvalue())) == [buffer.getvalue()]
    assert not is_image(b"photos/one.jpg\n")


def test_a_folder_without_images_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"contains no images \(\.bmp, "):
        list_sources([tmp_path], io.BytesIO())


def test_files_bytes_and_arrays_give_the_same_input(tmp_path: Path) -> None:
    content = encode_png(PIXELS)
    (tmp_path / "a.png").write_bytes(content)
    for source in (tmp_path / "a.png", content, PIXELS.transpose(1, 2, 0)):
        assert torch.equal(decode_image(source, SPEC), torch.from_numpy(PIXELS))


def test_large_and_broken_images_are_refused() -> None:
    with pytest.raises(BrokenImageError, match="63"):
        decode_image(encode_png(PIXELS), SPEC, max_pixels=63)
    assert decode_image(encode_png(PIXELS), SPEC, max_pixels=64).shape == (3, 8, 8)
    with pytest.raises(BrokenImageError):
        decode_image(b"words", SPEC)


@pytest.mark.parametrize("channels", [1, 3])
def test_images_in_memory_are_brought_to_the_size_of_a_model(channels: int) -> None:
    spec = ModelSpec("ncm", {}, "small", 3, 16, (0.5,) * 3, (0.2,) * 3, "20/class", features=True)
    images = torch.randint(0, 256, (2, channels, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    fitted = fit_images(images, spec)
    assert fitted.shape == (2, 3, 16, 16) and fitted.dtype == torch.uint8
    assert torch.equal(fitted[:, 0], fitted[:, 1]) is (channels == 1)
    assert abs(float(fitted.float().mean() - images.float().mean())) < 5
    assert fit_images(fitted, spec) is fitted


def test_standard_input_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_STDIN_BYTES", 1000)
    with (
        Path("/dev/zero").open("rb") as zeros,
        pytest.raises(UserError, match="more than 1,000 bytes or 1,000,000 lines"),
    ):
        list_sources([Path("-")], zeros)


def test_list_of_too_many_paths_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_STDIN_LINES", 2)
    assert len(list_sources([Path("-")], io.BytesIO(b"a\nb\n"))) == 2
    with pytest.raises(UserError, match="more than 100,000,000 bytes or 2 lines"):
        list_sources([Path("-")], io.BytesIO(b"a\nb\nc\n"))


def test_bytes_that_can_be_no_path_are_one_unreadable_image() -> None:
    content = b"x" * 5000
    assert list_sources([Path("-")], io.BytesIO(content)) == [content]


def test_images_are_split_by_their_pixels() -> None:
    assert [len(part) for part in split_images(torch.zeros(9, 3, 448, 448))] == [2, 2, 2, 2, 1]
    assert [len(part) for part in split_images(torch.zeros(2, 1, 2000, 2000))] == [1, 1]
    assert len(split_images(torch.zeros(64, 3, 64, 64))) == 1
    assert len(split_images(torch.zeros(10_000, 1280))) == 1, "features"
