"""Stanford Cars (Krause et al., 2013) in its original layout, with the split of its authors."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from upcl.core.errors import UserError
from upcl.data.dataset import Dataset
from upcl.data.io.layouts import Layout
from upcl.data.io.matlab import read_matlab

from .listed import LabelledPaths, count_notes, listed_path, photo_dataset

LAYOUT = Layout("stanfordcars", "Stanford Cars", ("stanford_cars", "stanfordcars", "cars196"), ("devkit",))
TEST_LABELS = "cars_test_annos_withlabels.mat"
NUM_IMAGES = 16_185
TASKS = (*[20] * 9, 16)  # usual in the field


def load_stanford_cars(root: Path) -> Dataset:
    """Load the 196 models of cars: 8,144 training images and 8,041 test images.

    Args:
        root: the folder that holds `stanford_cars/` with `cars_train/`, `cars_test/`, `devkit/` and
            `cars_test_annos_withlabels.mat`, which may lie in `devkit/` as well.

    Raises:
        UserError: the files are missing or inconsistent.

    Example:
        >>> load_stanford_cars(Path("data")).classes[0]  # doctest: +SKIP
        'AM General Hummer SUV 2000'
    """
    folder = LAYOUT.find(root)
    kit = folder / "devkit"
    names = np.atleast_1d(read_matlab(kit / "cars_meta.mat", ["class_names"])["class_names"])
    if not all(isinstance(name, str) for name in names.tolist()):
        raise UserError(f"{kit / 'cars_meta.mat'} does not hold the class names: it is another file, or damaged")
    test_labels = kit / TEST_LABELS if (kit / TEST_LABELS).is_file() else folder / TEST_LABELS
    train = _read_annotations(kit / "cars_train_annos.mat", folder / "cars_train", len(names))
    test = _read_annotations(test_labels, folder / "cars_test", len(names))
    notes = count_notes("stanfordcars", len(train) + len(test), NUM_IMAGES)
    tasks = TASKS if len(names) == sum(TASKS) else min(10, len(names))
    return photo_dataset("stanfordcars", folder, train, test, names.tolist(), tasks=tasks, notes=notes)


def _read_annotations(path: Path, images: Path, num_classes: int) -> LabelledPaths:
    """Files and labels, which the file counts from 1."""
    rows = np.atleast_1d(read_matlab(path, ["annotations"])["annotations"])
    if not {"class", "fname"} <= set(rows.dtype.names or ()):
        raise UserError(f"{path} does not hold the class and the file name of each image: {TEST_LABELS} does")
    nested = images / images.name  # as some copies unpack
    found = []
    for name, label in zip(rows["fname"].tolist(), rows["class"].tolist(), strict=True):
        if not isinstance(name, str) or not isinstance(label, int) or not 1 <= label <= num_classes:
            raise UserError(f"{path}: image '{name}' has class {label}, not a number from 1 to {num_classes}")
        found.append((listed_path(nested if nested.is_dir() else images, name, path), label - 1))
    return found
