from __future__ import annotations

from pathlib import Path

import pytest

from tests.data.files import file_names, jpeg, write_files
from upcl.core.errors import UserError
from upcl.data import load_dataset

README = """ImageNet-R contains renditions of 200 classes.

n01443537 goldfish
n01484850 great_white_shark
n99999999 another
"""
WNIDS = ("n01443537", "n01484850", "n01494475")


def make_imagenet_r(folder: Path, per_class: int = 10) -> Path:
    names = [f"{wnid}/{style}_{k}.jpg" for wnid in WNIDS for style in ("art", "toy") for k in range(per_class // 2)]
    write_files(folder, {"README.txt": README, "n01443537/._art_0.jpg": b"of macOS"})
    return write_files(folder, {name: jpeg(seed=k) for k, name in enumerate(names)})


def test_original_layout_is_read(tmp_path: Path) -> None:
    make_imagenet_r(tmp_path / "imagenet-r")
    dataset = load_dataset("imagenetr", tmp_path)
    assert dataset.classes == ("goldfish", "great white shark", "n01494475")
    assert dataset.train.counts(3).tolist() == [8, 8, 8] and dataset.test.counts(3).tolist() == [2, 2, 2]
    assert not set(file_names(dataset, "train")) & set(file_names(dataset, "test"))
    for split in ("train", "test"):
        wnids = [name.partition("/")[0] for name in file_names(dataset, split)]
        assert [WNIDS[label] for label in getattr(dataset, split).labels.tolist()] == wnids
    assert dataset.notes == ("imagenetr has 30 images, 30,000 were published: results are not comparable",)
    assert load_dataset("imagenetr/T3", tmp_path).tasks == 3


PINNED = [  # by `printf %s n01443537/art_0.jpg | sha256sum`, sorted, the first two of each class
    "n01443537/art_0.jpg",
    "n01443537/art_3.jpg",
    "n01484850/art_2.jpg",
    "n01484850/art_3.jpg",
    "n01494475/art_2.jpg",
    "n01494475/toy_0.jpg",
]


def test_split_is_pinned(tmp_path: Path) -> None:
    """Figures depend on it: it must never change."""
    make_imagenet_r(tmp_path / "imagenet-r")
    assert file_names(load_dataset("imagenetr", tmp_path), "test") == PINNED


def test_a_divided_copy_keeps_its_split(tmp_path: Path) -> None:
    make_imagenet_r(tmp_path / "imagenet-r" / "train", per_class=4)
    make_imagenet_r(tmp_path / "imagenet-r" / "test", per_class=6)
    dataset = load_dataset("imagenetr", tmp_path)
    assert (len(dataset.train), len(dataset.test)) == (12, 18)
    assert dataset.notes[1] == "imagenetr has the split of its folders train and test"


def test_names_are_not_essential(tmp_path: Path) -> None:
    folder = make_imagenet_r(tmp_path / "imagenet-r")
    (folder / "README.txt").write_text(README.replace("great_white_shark", "goldfish"))
    assert load_dataset("imagenetr", tmp_path).classes == WNIDS, "names must tell classes apart"
    (folder / "README.txt").write_bytes(b"\xff\0")
    assert load_dataset("imagenetr", tmp_path).classes == WNIDS
    (folder / "README.txt").unlink()
    assert load_dataset("imagenetr", tmp_path).classes == WNIDS


def test_missing_data_set_explains_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"expected imagenet-r/ or imagenet-r\.tar\): run `upcl data get imagenetr`"):
        load_dataset("imagenetr", tmp_path)
