from __future__ import annotations

from pathlib import Path

import pytest

from tests.data.files import CUB_IMAGES, file_names, make_cub200
from upcl.core.errors import UserError
from upcl.data import load_dataset


def test_original_layout_is_read(tmp_path: Path) -> None:
    make_cub200(tmp_path)
    dataset = load_dataset("cub200", tmp_path)
    assert dataset.classes == ("Black footed Albatross", "Laysan Albatross", "Crow")
    assert file_names(dataset, "train") == [name for _, name, _, in_train in CUB_IMAGES if in_train]
    assert file_names(dataset, "test") == [name for _, name, _, in_train in CUB_IMAGES if not in_train]
    assert dataset.train.labels.tolist() == [0, 1, 2, 2] and dataset.test.labels.tolist() == [0, 1, 2]
    assert dataset.image_shape == (3, 224, 224) and dataset.tasks == 10
    assert dataset.notes == ("cub200 has 7 images, 11,788 were published: results are not comparable",)


def test_streams_and_subsets_apply(tmp_path: Path) -> None:
    make_cub200(tmp_path)
    dataset = load_dataset("cub200/B2-Inc1:train=1", tmp_path)
    assert (dataset.name, dataset.tasks) == ("cub200:train=1", (2, 1))
    assert dataset.train.labels.tolist() == [0, 1, 2]


def test_order_of_the_lists_does_not_matter(tmp_path: Path) -> None:
    """Images are matched by their numbers."""
    folder = make_cub200(tmp_path)
    before = load_dataset("cub200", tmp_path)
    for name in ("image_class_labels.txt", "train_test_split.txt"):
        lines = (folder / name).read_text().splitlines()
        (folder / name).write_text("\r\n".join(lines[::-1]))
    assert load_dataset("cub200", tmp_path).fingerprint() == before.fingerprint()


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("image_class_labels.txt", "3 2\n", "3 4\n", r"labels\.txt: image 3 has class 4, not in classes\.txt"),
        ("image_class_labels.txt", "3 2\n", "", r"labels\.txt: image 3 has class None"),
        ("train_test_split.txt", "4 1\n", "4 2\n", r"split\.txt: image 4 has 2, neither 1 \(train\) nor 0"),
        ("train_test_split.txt", "4 1\n", "4\n", r"split\.txt:4: expected a new number and a value, not '4'"),
        ("images.txt", "5 003", "4 003", r"images\.txt:5: expected a new number"),
        ("images.txt", "5 003.Crow/Crow_0001.jpg", "5 ../../x.jpg", r"'\.\./\.\./x\.jpg' is not a file in .*images"),
        ("images.txt", "Crow_0001", "Crow_9999", r"003\.Crow/Crow_9999\.jpg is missing: the copy is incomplete"),
        ("classes.txt", "1 001", "x 001", r"classes\.txt:1: expected"),
        ("classes.txt", "1 001", "\0", r"classes\.txt is not a text file"),
    ],
)
def test_inconsistent_lists_are_refused(tmp_path: Path, file: str, old: str, new: str, message: str) -> None:
    path = make_cub200(tmp_path) / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UserError, match=message):
        load_dataset("cub200", tmp_path)


def test_missing_list_is_named(tmp_path: Path) -> None:
    (make_cub200(tmp_path) / "train_test_split.txt").unlink()
    with pytest.raises(UserError, match=r"train_test_split\.txt is missing: unpack the archive again"):
        load_dataset("cub200", tmp_path)
