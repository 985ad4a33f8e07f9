"""The defaults for folders and arrays. Stored models and records depend on them: a change must be deliberate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data.files import make_photos
from upcl.data.defaults import (
    NUM_MEASURED,
    default_augmentations,
    default_backbone,
    default_channels,
    default_image_size,
    default_normalisation,
)
from upcl.data.io.listing import ImageFile
from upcl.data.transforms import Flip, PadCrop, RandomResizedCrop


def files(*sizes: tuple[int, int]) -> list[ImageFile]:
    return [ImageFile(Path("x.png"), "a", "train", width=width, height=height) for width, height in sizes]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([(28, 28), (28, 28)], 28),
        ([(64, 64)], 64),
        ([(65, 65)], 64),
        ([(28, 28), (32, 32)], 64),
        ([(28, 20)], 64),
        ([(640, 480), (480, 640)], 64),
        ([], 64),
    ],
)
def test_equal_small_squares_keep_their_size(sizes: list[tuple[int, int]], expected: int) -> None:
    assert default_image_size(files(*sizes)) == expected


def test_one_colour_image_makes_all_colour() -> None:
    grey = ImageFile(Path("x.png"), "a", "train", grey=True)
    assert default_channels([grey, grey]) == 1
    assert default_channels([grey, *files((8, 8))]) == 3


@pytest.mark.parametrize(("size", "backbone"), [(8, "medium"), (64, "medium"), (65, "resnet18-7x7")])
def test_backbone_grows_with_the_images(size: int, backbone: str) -> None:
    assert default_backbone(size) == backbone


def test_small_images_are_padded_and_large_ones_resized() -> None:
    assert default_augmentations(7) == (PadCrop(1), Flip(0.5))
    assert default_augmentations(32) == (PadCrop(4), Flip(0.5))
    assert default_augmentations(33) == (RandomResizedCrop(33, scale=(0.3, 1.0)), Flip(0.5))
    assert default_augmentations(224, crop=False) == (Flip(0.5),)


def test_normalisation_is_measured_on_evenly_spaced_images() -> None:
    images = torch.zeros(2 * NUM_MEASURED, 1, 1, 1, dtype=torch.uint8)
    images[::4] = 255  # every second image that is measured
    images[1::2] = 255  # never measured
    mean, std = default_normalisation(images)
    assert mean == (0.5,) and std == (0.5,)


def test_normalisation_of_photos_is_measured_on_their_test_crops(tmp_path: Path) -> None:
    photos = make_photos(tmp_path, [(20, 30), (40, 20), (30, 30)], size=8)
    mean, std = default_normalisation(torch.tensor([2, 0]), photos)
    pixels = np.stack([photos.crop(k, None) for k in (2, 0)]) / 255
    assert mean == pytest.approx(pixels.mean((0, 1, 2)), abs=5e-5)
    assert std == pytest.approx(pixels.std((0, 1, 2)), abs=5e-5)
