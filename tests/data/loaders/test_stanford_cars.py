from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from tests.data.files import file_names, jpeg, write_files
from upcl.core.errors import UserError
from upcl.data import load_dataset

NAMES = ["AM General Hummer SUV 2000", "Acura RL Sedan 2012", "smart fortwo Convertible 2012"]
FIELDS = ["bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname"]


def write_annotations(path: Path, rows: list[tuple[Any, Any]], fields: list[str] = FIELDS) -> None:
    """Annotations as MATLAB stores them: a 1 x N structure, numbers in the smallest type that fits."""
    table = np.zeros((1, len(rows)), dtype=[(field, "O") for field in fields])
    for k, (label, name) in enumerate(rows):
        number = np.array([[label]], np.uint8) if isinstance(label, int) else label
        values = {"class": number, "fname": name} | {field: np.array([[300]], np.uint16) for field in fields[:4]}
        table[0, k] = tuple(values[field] for field in fields)
    scipy.io.savemat(path, {"annotations": table}, do_compression=True)


def make_cars(root: Path) -> Path:
    folder = write_files(root / "stanford_cars", {f"cars_train/{k:05d}.jpg": jpeg() for k in range(1, 5)})
    write_files(folder, {f"cars_test/{k:05d}.jpg": jpeg() for k in range(1, 4)})
    (folder / "devkit").mkdir()
    names = np.array([NAMES], dtype=object)
    scipy.io.savemat(folder / "devkit" / "cars_meta.mat", {"class_names": names}, do_compression=True)
    train = [(3, "00001.jpg"), (1, "00002.jpg"), (2, "00003.jpg"), (3, "00004.jpg")]
    write_annotations(folder / "devkit" / "cars_train_annos.mat", train)
    test = [(2, "00001.jpg"), (1, "00002.jpg"), (3, "00003.jpg")]
    write_annotations(folder / "cars_test_annos_withlabels.mat", test)
    return folder


def test_original_layout_is_read(tmp_path: Path) -> None:
    make_cars(tmp_path)
    dataset = load_dataset("stanfordcars", tmp_path)
    assert dataset.classes == tuple(NAMES) and dataset.tasks == 3
    assert file_names(dataset, "train") == [f"cars_train/{k:05d}.jpg" for k in range(1, 5)]
    assert file_names(dataset, "test") == [f"cars_test/{k:05d}.jpg" for k in range(1, 4)]
    assert dataset.train.labels.tolist() == [2, 0, 1, 2] and dataset.test.labels.tolist() == [1, 0, 2]
    assert dataset.image_shape == (3, 224, 224) and "16,185 were published" in dataset.notes[0]


def test_nested_images_and_test_labels_in_the_kit_are_found(tmp_path: Path) -> None:
    folder = make_cars(tmp_path)
    before = load_dataset("stanfordcars", tmp_path)
    for split in ("cars_train", "cars_test"):
        (folder / split).rename(folder / "inner")
        (folder / split).mkdir()
        (folder / "inner").rename(folder / split / split)
    labels = folder / "cars_test_annos_withlabels.mat"
    labels.rename(folder / "devkit" / labels.name)
    dataset = load_dataset("stanfordcars", tmp_path)
    assert file_names(dataset, "test") == file_names(before, "test")
    assert dataset.test.labels.tolist() == before.test.labels.tolist()


def test_all_196_classes_have_the_usual_tasks(tmp_path: Path) -> None:
    folder = write_files(make_cars(tmp_path), {"cars_train/x.jpg": jpeg(), "cars_test/x.jpg": jpeg()})
    names = np.array([[f"car {k}" for k in range(196)]], dtype=object)
    scipy.io.savemat(folder / "devkit" / "cars_meta.mat", {"class_names": names})
    for path in (folder / "devkit" / "cars_train_annos.mat", folder / "cars_test_annos_withlabels.mat"):
        write_annotations(path, [(k, "x.jpg") for k in range(1, 197)])
    dataset = load_dataset("stanfordcars", tmp_path)
    assert dataset.tasks == (20,) * 9 + (16,) and dataset.train.labels.tolist() == list(range(196))
    assert load_dataset("stanfordcars:num_classes=50", tmp_path).tasks == (20, 20, 10)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((0, "00001.jpg"), "image '00001.jpg' has class 0, not a number from 1 to 3"),
        ((4, "00001.jpg"), "has class 4, not a number from 1 to 3"),
        ((1.5, "00001.jpg"), r"has class 1\.5, not a number"),
        (("1", "00001.jpg"), "has class 1, not a number"),
        ((np.array([1, 2]), "00001.jpg"), r"has class \[1 2\], not a number"),
        ((1, np.array([7])), "image '7' has class 1"),
        ((1, "../devkit/x.jpg"), r"'\.\./devkit/x\.jpg' is not a file in .*cars_test"),
        ((1, "00009.jpg"), r"cars_test/00009\.jpg is missing"),
    ],
)
def test_hostile_annotations_are_refused(tmp_path: Path, row: tuple[Any, Any], message: str) -> None:
    write_annotations(make_cars(tmp_path) / "cars_test_annos_withlabels.mat", [(1, "00001.jpg"), row])
    with pytest.raises(UserError, match=message):
        load_dataset("stanfordcars", tmp_path)


def test_test_labels_are_needed(tmp_path: Path) -> None:
    """The development kit alone has boxes of the test images, but no classes."""
    folder = make_cars(tmp_path)
    labels = folder / "cars_test_annos_withlabels.mat"
    write_annotations(labels, [(1, "00001.jpg")], [field for field in FIELDS if field != "class"])
    with pytest.raises(
        UserError, match=r"does not hold the class and the file name.*cars_test_annos_withlabels\.mat does"
    ):
        load_dataset("stanfordcars", tmp_path)
    labels.unlink()
    with pytest.raises(UserError, match=r"cars_test_annos_withlabels\.mat is missing"):
        load_dataset("stanfordcars", tmp_path)


@pytest.mark.parametrize("names", [np.eye(3), np.array([["a", 5.0]], dtype=object), np.float64(3)])
def test_class_names_must_be_text(tmp_path: Path, names: np.ndarray) -> None:
    scipy.io.savemat(make_cars(tmp_path) / "devkit" / "cars_meta.mat", {"class_names": names})
    with pytest.raises(UserError, match=r"cars_meta\.mat does not hold the class names"):
        load_dataset("stanfordcars", tmp_path)


def test_missing_data_set_explains_where_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"expected stanford_cars/\): its official address is gone; put cars_train/"):
        load_dataset("stanfordcars", tmp_path)
