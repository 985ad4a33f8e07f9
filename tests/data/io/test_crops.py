"""Crops that workers take from files: right, the same for any number of workers, and clear about errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.data.files import make_photos, smooth_image
from upcl.core.errors import UserError
from upcl.data.io.crops import Photos


def test_test_crop_is_the_centre_of_the_resized_image(tmp_path: Path) -> None:
    photos = make_photos(tmp_path, [(40, 30), (24, 60)])
    found = next(photos.batches(torch.arange(2), [torch.arange(2)], augment=False))
    assert found.shape == (2, 3, 16, 16) and found.dtype == torch.uint8
    image = Image.open(tmp_path / "0.jpg")
    resized = np.asarray(image.resize((round(40 * 16 / 0.875 / 30), round(16 / 0.875)), Image.Resampling.BILINEAR))
    left, top = (resized.shape[1] - 16) // 2, (resized.shape[0] - 16) // 2
    expected = resized[top : top + 16, left : left + 16].transpose(2, 0, 1).astype(int)
    assert np.abs(found[0].numpy().astype(int) - expected).mean() < 6


def test_crops_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    photos = make_photos(tmp_path, [(40, 30)] * 7)
    positions, batches = torch.tensor([6, 5, 4, 3, 2, 1, 0]), [torch.tensor([0, 3]), torch.tensor([6, 1, 2])]
    threads, found = torch.get_num_threads(), []
    try:
        for workers in (1, 2):
            torch.set_num_threads(workers)
            torch.manual_seed(3)
            found.append(list(photos.batches(positions, batches, augment=True)))
    finally:
        torch.set_num_threads(threads)
    assert [len(batch) for batch in found[0]] == [2, 3]
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    torch.manual_seed(3)
    draws = torch.rand(7, 4).numpy()
    expected = photos.crop(3, draws[3]).transpose(2, 0, 1)  # the fourth position is file 3
    assert np.array_equal(found[0][0][1].numpy(), expected)
    again = list(photos.batches(positions, batches, augment=True))
    assert not torch.equal(again[0], found[0][0]), "each epoch draws new crops"


def test_random_boxes_have_the_requested_area_and_aspect_ratio() -> None:
    photos = Photos.from_files([], 16, "")
    draws = np.random.default_rng(0).random((2000, 4))
    areas = photos.scale[0] + draws[:, 0] * (photos.scale[1] - photos.scale[0])
    boxes = np.array([photos.random_box(400, 300, a, d) for a, d in zip(areas, draws, strict=True)])
    wide, tall = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    assert boxes.min() >= 0 and boxes[:, 2].max() <= 400 and boxes[:, 3].max() <= 300
    small = areas < 0.5
    assert np.allclose(wide[small] * tall[small], areas[small] * 400 * 300)
    assert 0.74 < (wide / tall)[small].min() < 0.8 and 1.25 < (wide / tall)[small].max() < 1.34


def test_training_crop_shows_its_box(tmp_path: Path) -> None:
    photos = make_photos(tmp_path, [(60, 40)])
    draws = np.array([0.5, 0.3, 0.7, 0.2])
    image = Image.open(tmp_path / "0.jpg")
    box = photos.random_box(60, 40, 0.54, draws)
    expected = np.asarray(image.resize((16, 16), Image.Resampling.BILINEAR, box=box))
    assert np.array_equal(photos.crop(0, draws), expected)


def test_large_jpeg_looks_the_same_although_decoded_coarsely(tmp_path: Path) -> None:
    photos = make_photos(tmp_path, [(640, 480)], size=32)
    image = Image.open(tmp_path / "0.jpg")
    exact = np.asarray(image.resize((32, 32), Image.Resampling.BILINEAR, box=(110, 30, 530, 450)))
    assert np.abs(photos.crop(0, None).astype(int) - exact.astype(int)).mean() < 2


def test_rotated_photo_is_cropped_upright(tmp_path: Path) -> None:
    image = smooth_image(60, 30)
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "turned.jpg", exif=exif, quality=95)
    photos = Photos.from_files([tmp_path / "turned.jpg"], 16, "")
    upright = image.transpose(Image.Transpose.ROTATE_270)
    expected = np.asarray(upright.resize((16, 16), Image.Resampling.BILINEAR, box=photos.central_box(30, 60)))
    assert np.abs(photos.crop(0, None).astype(int) - expected.astype(int)).mean() < 4


def test_grey_photos_have_one_channel(tmp_path: Path) -> None:
    colour = make_photos(tmp_path, [(40, 30)])
    grey = Photos(colour.paths, 16, "", channels=1)
    assert grey.shape == (1, 16, 16)
    (batch,) = grey.batches(torch.arange(1), [torch.arange(1)], augment=False)
    luma = np.asarray(Image.fromarray(colour.crop(0, None)).convert("L"), dtype=int)
    assert batch.shape == (1, 1, 16, 16)
    assert np.abs(batch[0, 0].numpy().astype(int) - luma).max() <= 2


def test_file_that_breaks_later_is_named(tmp_path: Path) -> None:
    photos = make_photos(tmp_path, [(40, 30)] * 2)
    (tmp_path / "1.jpg").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"cannot read .*1\.jpg: not a supported image format"):
        list(photos.batches(torch.arange(2), [torch.arange(2)], augment=False))
