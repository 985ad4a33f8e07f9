from __future__ import annotations

import pytest
import torch

from upcl.core.errors import UserError
from upcl.core.types import Samples
from upcl.data import Dataset, Transform, load_dataset


def test_digits_are_the_real_ones_split_the_same_way_every_time() -> None:
    digits = load_dataset("digits")
    assert len(digits.train) + len(digits.test) == 1797
    assert digits.train.inputs.shape[1:] == (1, 8, 8)
    assert digits.test.counts(10).tolist() == [35, 36, 35, 36, 36, 36, 36, 35, 34, 36]
    assert digits.fingerprint() == load_dataset("digits").fingerprint()
    pixels = digits.train.inputs.float() / 255
    assert digits.transform.mean[0] == pytest.approx(float(pixels.mean()), abs=2e-3)
    assert digits.transform.std[0] == pytest.approx(float(pixels.std()), abs=2e-3)
    train = {image.numpy().tobytes() for image in digits.train.inputs}
    assert not any(image.numpy().tobytes() in train for image in digits.test.inputs), "an image is in both parts"


def test_synthetic_takes_any_classes_size_and_channels() -> None:
    made = load_dataset("synthetic:classes=7,size=12,channels=1,train=5,test=3,seed=4")
    assert made.train.inputs.shape == (35, 1, 12, 12)
    assert made.test.counts(7).tolist() == [3] * 7
    again = load_dataset("synthetic:classes=7,size=12,channels=1,train=5,test=3,seed=4")
    other = load_dataset("synthetic:classes=7,size=12,channels=1,train=5,test=3,seed=5")
    assert made.fingerprint() == again.fingerprint() != other.fingerprint()
    assert made.name == load_dataset(made.name).name


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("digit", "did you mean digits"),
        ("synthetic:clases=3", "did you mean classes"),
        ("synthetic:classes=many", "must be an integer"),
        ("synthetic:channels=2", "must be 1 or 3"),
        ("synthetic:train=0", "at least 1"),
        ("digits:size=9", "choose from: train, test"),
    ],
)
def test_wrong_specs_say_what_is_right(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_dataset(spec)


def test_own_arrays_are_checked() -> None:
    images, labels = torch.zeros(4, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 0, 1, 1])
    good = Samples(images, labels)

    def dataset(train: Samples, test: Samples) -> Dataset:
        return Dataset(name="own", train=train, test=test, classes=("a", "b"), transform=Transform((0.5,), (0.5,)))

    assert dataset(good, good).channels == 1
    with pytest.raises(UserError, match="must be uint8"):
        dataset(Samples(images.float(), labels), good)
    with pytest.raises(UserError, match="class 'b' has no test image"):
        dataset(good, Samples(images, torch.zeros(4, dtype=torch.int64)))
    with pytest.raises(UserError, match="outside of the 2 classes"):
        dataset(Samples(images, torch.tensor([0, 1, 2, 0])), good)
