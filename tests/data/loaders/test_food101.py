from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.data.files import file_names, jpeg, write_files
from upcl.core.errors import UserError
from upcl.data import Dataset, load_dataset

TRAIN = ["apple_pie/1", "apple_pie/2", "baby_back_ribs/7", "baby_back_ribs/8"]
TEST = ["apple_pie/3", "baby_back_ribs/9"]


def by_class(names: list[str]) -> str:
    return json.dumps(
        {key: [name for name in names if name.startswith(key)] for key in ("baby_back_ribs", "apple_pie")}
    )


def make_food101(root: Path) -> Path:
    meta = {"classes": ["apple_pie", "baby_back_ribs"], "train": TRAIN, "test": TEST}
    folder = write_files(root / "food-101", {f"meta/{name}.txt": "\n".join(lines) for name, lines in meta.items()})
    write_files(folder, {"meta/train.json": by_class(TRAIN), "meta/test.json": by_class(TEST)})
    return write_files(folder, {f"images/{name}.jpg": jpeg() for name in TRAIN + TEST})


def check(dataset: Dataset) -> None:
    assert dataset.classes == ("apple pie", "baby back ribs")
    assert sorted(file_names(dataset, "train")) == [f"{name}.jpg" for name in TRAIN]
    assert sorted(file_names(dataset, "test")) == [f"{name}.jpg" for name in TEST]
    for split in ("train", "test"):
        labels = [int(name.startswith("baby")) for name in file_names(dataset, split)]
        assert getattr(dataset, split).labels.tolist() == labels


def test_original_layout_is_read(tmp_path: Path) -> None:
    make_food101(tmp_path)
    dataset = load_dataset("food101", tmp_path)
    check(dataset)
    assert dataset.image_shape == (3, 224, 224) and "101,000 were published" in dataset.notes[0]


def test_json_lists_serve_as_well(tmp_path: Path) -> None:
    meta = make_food101(tmp_path) / "meta"
    for path in meta.glob("*.txt"):
        path.unlink()
    check(load_dataset("food101", tmp_path))


@pytest.mark.parametrize("content", ["", "[1]", "3", '{"apple_pie": 3}', '{"apple_pie": [3]}', "[" * 9999, '["ab"]'])
def test_damaged_json_is_refused(tmp_path: Path, content: str) -> None:
    meta = make_food101(tmp_path) / "meta"
    (meta / "test.txt").unlink()
    (meta / "test.json").write_text(content)
    with pytest.raises(UserError, match=r"test\.json is damaged: it does not list the images"):
        load_dataset("food101", tmp_path)


def test_lists_and_images_must_agree(tmp_path: Path) -> None:
    folder = make_food101(tmp_path)
    (folder / "images" / "apple_pie" / "3.jpg").unlink()
    with pytest.raises(UserError, match=r"images/apple_pie/3\.jpg is missing: the copy is incomplete"):
        load_dataset("food101", tmp_path)
    (folder / "meta" / "test.txt").write_text("apple_pie/3\npizza/1\n")
    with pytest.raises(UserError, match=r"test\.txt: 'pizza/1' has a class that is not in .*classes\.txt"):
        load_dataset("food101", tmp_path)
    (folder / "meta" / "test.txt").write_text("apple_pie/../../../secret\n")
    with pytest.raises(UserError, match=r"test\.txt: '.*' is not a file in .*images"):
        load_dataset("food101", tmp_path)
    (folder / "meta" / "test.txt").unlink()
    (folder / "meta" / "test.json").unlink()
    with pytest.raises(UserError, match=r"meta has neither test\.txt nor test\.json"):
        load_dataset("food101", tmp_path)
