from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data.files import make_tiny_imagenet, noise, save
from upcl.core.errors import UserError
from upcl.data import Flip, PadCrop, load_dataset
from upcl.data.io.images import read_square


def test_original_layout_is_read(tmp_path: Path, cache: Path) -> None:
    folder = make_tiny_imagenet(tmp_path)
    dataset = load_dataset("tinyimagenet", tmp_path)
    assert dataset.classes == ("bullfrog", "goldfish", "tarantula")
    assert dataset.train.counts(3).tolist() == [3, 3, 3]
    assert dataset.test.labels.tolist() == [2, 1, 0, 1]
    second = read_square(folder / "val" / "images" / "val_1.JPEG", 64, 3)
    assert np.array_equal(dataset.test.inputs[1].numpy(), second)
    grey = dataset.test.inputs[0]
    assert torch.equal(grey[0], grey[1]), "a grey JPEG has three equal channels"
    assert load_dataset("tinyimagenet", tmp_path).fingerprint() == dataset.fingerprint()
    assert len(list(cache.iterdir())) == 2, "each split is decoded once"
    save(folder / "train" / "n01" / "images" / "n01_0.JPEG", noise(77, 64, 64))
    assert load_dataset("tinyimagenet", tmp_path).fingerprint() != dataset.fingerprint(), "a changed file is noticed"


def test_smaller_images_are_reduced(tmp_path: Path) -> None:
    folder = make_tiny_imagenet(tmp_path)
    dataset = load_dataset("tinyimagenet:size=32,test=1", tmp_path)
    assert dataset.name == "tinyimagenet:size=32,test=1" and len(dataset.test) == 3
    first = read_square(folder / "val" / "images" / "val_0.JPEG", 32, 3)
    assert any(np.array_equal(image.numpy(), first) for image in dataset.test.inputs)
    assert dataset.transform.augmentations == (PadCrop(4), Flip(0.5))
    with pytest.raises(UserError, match="size must be 8 to 64, not 65"):
        load_dataset("tinyimagenet:size=65", tmp_path)


def test_archive_in_the_data_root_is_unpacked(tmp_path: Path) -> None:
    make_tiny_imagenet(tmp_path / "source")
    root = tmp_path / "root"
    root.mkdir()
    with zipfile.ZipFile(root / "tiny-imagenet-200.zip", "w") as archive:
        for path in sorted((tmp_path / "source").rglob("*")):
            archive.write(path, path.relative_to(tmp_path / "source"))
    assert len(load_dataset("tinyimagenet", root).train) == 9


def test_annotation_of_an_unknown_class_is_refused(tmp_path: Path) -> None:
    folder = make_tiny_imagenet(tmp_path)
    (folder / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn77\t0\t0\t62\t62\n")
    with pytest.raises(UserError, match=r"val_annotations\.txt: 'n77' is not in wnids\.txt"):
        load_dataset("tinyimagenet", tmp_path)


@pytest.mark.parametrize("file", ["wnids.txt", "val/val_annotations.txt"])
@pytest.mark.parametrize("content", [b"\x7fELF\xff", b"n01\0\tn01"])
def test_binary_lists_are_refused(tmp_path: Path, file: str, content: bytes) -> None:
    (make_tiny_imagenet(tmp_path) / file).write_bytes(content)
    with pytest.raises(UserError, match="is not a text file"):
        load_dataset("tinyimagenet", tmp_path)
