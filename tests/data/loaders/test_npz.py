from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.files import RunsCode, noise
from upcl.core.errors import UserError
from upcl.data import load_dataset

IMAGES = np.stack([noise(i)[:, :, 0] for i in range(6)])
LABELS = np.array([0, 1, 2] * 2)
ARRAYS: dict[str, Any] = {"train_x": IMAGES, "train_y": LABELS, "test_x": IMAGES[::-1], "test_y": LABELS[::-1]}


def load(path: Path, **changes: Any) -> Any:
    np.savez(path / "own.npz", **{**ARRAYS, **changes})
    return load_dataset(f"npz:{path / 'own.npz'}")


def test_grey_arrays_are_a_data_set(tmp_path: Path) -> None:
    dataset = load(tmp_path, classes=np.array(["a", "b", "c"]))
    assert (dataset.channels, dataset.classes, dataset.name) == (1, ("a", "b", "c"), "npz:own.npz")
    assert np.array_equal(dataset.train.inputs[:, 0].numpy(), IMAGES)
    assert dataset.test.labels.tolist() == LABELS[::-1].tolist()
    assert dataset.transform.mean[0] == pytest.approx(IMAGES.mean() / 255, abs=1e-4)
    assert dataset.transform.std[0] == pytest.approx(IMAGES.std() / 255, abs=1e-4)


def test_colour_arrays_and_default_class_names(tmp_path: Path) -> None:
    colour = np.stack([noise(i) for i in range(6)])
    dataset = load(tmp_path, train_x=colour, test_x=colour)
    assert (dataset.image_shape, dataset.classes, dataset.tasks) == ((3, 16, 16), ("0", "1", "2"), 3)
    assert np.array_equal(dataset.train.inputs[2].numpy(), colour[2].transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_y": LABELS + 0.5}, "train_y must have 6 integers"),
        ({"train_y": LABELS[:, None]}, "train_y must have 6 integers"),
        ({"test_y": LABELS[:3]}, "test_y must have 6 integers"),
        ({"train_y": LABELS - 1}, "train labels must be in the range"),
        ({"train_x": IMAGES[:0], "train_y": LABELS[:0]}, "train_x is empty"),
        ({"train_x": np.stack([IMAGES] * 8, 3)}, "1 or 3 channels in its last dimension, not 8"),
        ({"train_x": IMAGES.astype(float)}, "train_x must be uint8"),
        ({"test_x": IMAGES[0]}, "test_x must be uint8, N x H x W"),
        ({"train_x": IMAGES[:, :0]}, "train_x is empty"),
        ({"train_x": np.zeros((6, 1025, 2), np.uint8)}, "more than 1,024 pixels per side"),
        ({"test_x": IMAGES[:, 1:]}, "must have the shape of training images"),
        ({"test_x": np.stack([IMAGES] * 3, 3)}, "must have the shape of training images"),
        ({"train_y": LABELS + 2**40}, "contains 1099511627778 and has only 6 images"),
        ({"train_y": LABELS.astype(np.uint64) + np.uint64(2**63)}, "train labels must be in the range"),
        ({"classes": np.array(["a", "b", "\ud800"])}, "classes must be text"),
        ({"train_x": np.array([RunsCode()], dtype=object)}, "cannot be read as npz"),
    ],
)
def test_wrong_arrays_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(tmp_path, **changes)


def test_missing_arrays_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", train_x=IMAGES)
    with pytest.raises(UserError, match="lacks the arrays train_y, test_x, test_y; found train_x"):
        load_dataset(f"npz:{tmp_path / 'own.npz'}")


def test_other_files_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", IMAGES)
    with pytest.raises(UserError, match="contains a single array"):
        load_dataset(f"npz:{tmp_path / 'one.npy'}")
    (tmp_path / "text.npz").write_bytes(b"no")
    with pytest.raises(UserError, match="cannot be read as npz"):
        load_dataset(f"npz:{tmp_path / 'text.npz'}")
    with pytest.raises(UserError, match="there is no file"):
        load_dataset(f"npz:{tmp_path / 'absent.npz'}")
