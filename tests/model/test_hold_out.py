"""Which images are held out."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

from upcl.data.io.listing import ImageFile
from upcl.model.hold_out import split_by_digest, split_files


def test_copies_of_one_image_stay_on_one_side_of_thesplit_files() -> None:
    from upcl.data.io.listing import ImageFile

    files = [
        ImageFile(Path(f"{label}{k}.png"), label, "train", digest=f"{label}{k // 2}")
        for label in ("cat", "dog")
        for k in range(10)
    ]
    single = [ImageFile(Path(f"owl{k}.png"), "owl", "train", digest="same") for k in range(3)]
    train, held_out = split_files([*single, *files])
    assert {file.digest for file in train}.isdisjoint(file.digest for file in held_out)
    assert [file.label for file in held_out] == ["cat"] * 2 + ["dog"] * 2, "one of five distinct images of each class"
    assert sum(file.label == "owl" for file in train) == 3, "nothing to hold out"


def photos(label: str, num: int, split: str = "train") -> list[ImageFile]:
    return [
        ImageFile(Path(f"{label}/{k}.jpg"), label, split, digest=hashlib.sha256(f"{label}{k}".encode()).hexdigest())
        for k in range(num)
    ]


def test_by_digest_a_photo_is_held_out_whatever_comes_with_it() -> None:
    files = [*photos("cat", 200), *photos("dog", 100)]
    _, held_out = split_by_digest(files)
    assert 0.12 < len(held_out) / len(files) < 0.28 and {file.label for file in held_out} == {"cat", "dog"}
    shuffled = random.Random(0).sample(files, len(files))
    in_lots = [file for k in range(0, 300, 100) for file in split_by_digest(shuffled[k : k + 100])[1]]
    assert set(in_lots) == set(held_out)


def test_by_digest_small_classes_give_up_one_and_never_all() -> None:
    for num in range(1, 12):
        for seed in range(20):
            files = photos(f"class {seed}", num)
            train, held_out = split_by_digest(files)
            assert train and len(train) + len(held_out) == num
            assert held_out or num < 5


def test_by_digest_a_test_folder_is_held_out_and_copies_stay_together() -> None:
    train, test = photos("cat", 10), photos("dog", 3, "test")
    assert split_by_digest([*train, *test]) == (train, test)
    copies = [*photos("cat", 40), *photos("cat", 40)]
    learned, held_out = split_by_digest(copies)
    assert not {file.digest for file in learned} & {file.digest for file in held_out}
