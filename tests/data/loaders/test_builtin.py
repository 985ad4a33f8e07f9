from __future__ import annotations

import pytest
import torch

from upcl.core.errors import UserError
from upcl.data import Dataset, load_dataset
from upcl.data.loaders.builtin import SyntheticOptions, load_digits


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_digits()


def test_digits_are_split_the_same_way_every_time(digits: Dataset) -> None:
    assert len(digits.train) + len(digits.test) == 1797
    assert digits.image_shape == (1, 8, 8)
    assert digits.test.counts(10).tolist() == [35, 36, 35, 36, 36, 36, 36, 35, 34, 36]
    assert digits.fingerprint() == load_dataset("digits").fingerprint()


def test_digits_are_normalised_by_their_own_statistics(digits: Dataset) -> None:
    pixels = digits.train.inputs.float() / 255
    assert digits.transform.mean[0] == pytest.approx(float(pixels.mean()), abs=2e-3)
    assert digits.transform.std[0] == pytest.approx(float(pixels.std()), abs=2e-3)


def test_no_digit_is_in_both_splits(digits: Dataset) -> None:
    train = {image.numpy().tobytes() for image in digits.train.inputs}
    assert not any(image.numpy().tobytes() in train for image in digits.test.inputs)


def test_synthetic_images_have_the_requested_shape() -> None:
    options = SyntheticOptions(classes=7, size=12, channels=1, train=5, test=3, seed=4)
    dataset = options.build()
    assert dataset.train.inputs.shape == (35, 1, 12, 12)
    assert dataset.test.counts(7).tolist() == [3] * 7
    assert dataset.name == "synthetic:classes=7,size=12,channels=1,train=5,test=3,noise=40,seed=4"
    assert load_dataset(dataset.name).fingerprint() == dataset.fingerprint()


def test_synthetic_images_follow_the_seed() -> None:
    one, again, other = (SyntheticOptions(train=2, test=1, seed=seed).build() for seed in (4, 4, 5))
    assert one.fingerprint() == again.fingerprint() != other.fingerprint()


def test_synthetic_classes_can_be_told_apart() -> None:
    """The nearest class mean of the training images classifies the test images."""
    dataset = SyntheticOptions(classes=5).build()
    train, test = (part.inputs.flatten(1).float() for part in (dataset.train, dataset.test))
    means = torch.stack([train[dataset.train.labels == label].mean(0) for label in range(5)])
    nearest = torch.cdist(test, means).argmin(1)
    assert float((nearest == dataset.test.labels).float().mean()) > 0.9


@pytest.mark.parametrize(
    "wrong", [{"classes": 0}, {"size": 0}, {"train": 0}, {"test": 0}, {"channels": 2}, {"noise": 256}]
)
def test_impossible_options_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UserError, match=f"synthetic: {next(iter(wrong))} must be"):
        SyntheticOptions(**wrong)


@pytest.mark.parametrize("wrong", ["classes", "size", "train", "test"])
@pytest.mark.parametrize("value", [10**8, 10**4000])
def test_vast_data_sets_are_refused_before_they_are_drawn(wrong: str, value: int) -> None:
    with pytest.raises(UserError, match="more than 500,000,000 pixel values"):
        load_dataset(f"synthetic:{wrong}={value}")
