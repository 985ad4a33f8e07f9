from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.data.files import make_photos
from upcl.core.errors import UserError
from upcl.core.types import Samples
from upcl.data import Dataset, Transform
from upcl.data.dataset import channel_statistics

IMAGES = torch.zeros(4, 1, 2, 2, dtype=torch.uint8)
LABELS = torch.tensor([0, 0, 1, 1])


def dataset(
    train: Tensor = IMAGES, train_labels: Tensor = LABELS, test: Tensor = IMAGES, test_labels: Tensor = LABELS
) -> Dataset:
    return Dataset(
        name="own",
        train=Samples(train, train_labels),
        test=Samples(test, test_labels),
        classes=("cat", "dog"),
        transform=Transform((0.5,), (0.5,)),
    )


def test_shape_and_channels_follow_the_images() -> None:
    assert dataset().image_shape == (1, 2, 2)
    assert dataset().channels == 1


def test_photos_determine_the_shape(tmp_path: Path) -> None:
    photos = make_photos(tmp_path, [(20, 20)] * 4, size=8)
    transform = Transform((0.5,) * 3, (0.5,) * 3, photos=photos)
    positions = Samples(torch.arange(4), LABELS)
    assert Dataset(
        name="photos", train=positions, test=positions, classes=("cat", "dog"), transform=transform
    ).image_shape == (3, 8, 8)


def test_float_images_are_refused() -> None:
    with pytest.raises(UserError, match="own: train images must be uint8"):
        dataset(train=IMAGES.float())


def test_normalisation_of_other_channels_is_refused() -> None:
    with pytest.raises(UserError, match="one value for each of the 3 channels"):
        dataset(train=IMAGES.expand(4, 3, 2, 2))


@pytest.mark.parametrize("shape", [(4, 1, 2, 3), (4, 3, 2, 2)])
def test_test_images_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="must have the shape of training images"):
        dataset(test=torch.zeros(shape, dtype=torch.uint8))


def test_empty_split_is_refused() -> None:
    with pytest.raises(UserError, match="there are no train images"):
        dataset(train=IMAGES[:0], train_labels=LABELS[:0])


@pytest.mark.parametrize("wrong", [2, -1])
def test_labels_out_of_range_are_refused(wrong: int) -> None:
    with pytest.raises(UserError, match="train labels must be in the range 0 to 1"):
        dataset(train_labels=torch.tensor([0, 1, wrong, 0]))


def test_class_without_images_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="class 'dog' has no test images"):
        dataset(test_labels=torch.zeros(4, dtype=torch.int64))


def test_fingerprint_depends_on_content_only() -> None:
    original = dataset().fingerprint()
    assert dataset(train=IMAGES.clone()).fingerprint() == original
    assert dataclasses.replace(dataset(), name="other", tasks=1).fingerprint() == original
    changed = IMAGES.clone()
    changed[3, 0, 1, 1] = 1
    others = {
        dataset(train=changed).fingerprint(),
        dataset(train_labels=LABELS.flip(0)).fingerprint(),
        dataset(test_labels=LABELS.flip(0)).fingerprint(),
        dataclasses.replace(dataset(), classes=("cat", "cow")).fingerprint(),
    }
    assert len(others) == 4 and original not in others


def test_channel_statistics_equal_numpy_over_all_batches() -> None:
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (10, 3, 5, 4), dtype=np.uint8))
    images[:, 2] = 7
    mean, std = channel_statistics(images.split(3))
    values = images.numpy() / 255
    assert mean == pytest.approx(values.mean((0, 2, 3)), abs=5e-5)
    assert std[:2] == pytest.approx(values.std((0, 2, 3))[:2], abs=5e-5)
    assert std[2] == 0.001, "a constant channel must not divide by zero"
