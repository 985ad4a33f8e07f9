from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.data.files import file_names, write_files
from upcl.core.errors import UserError
from upcl.data import load_dataset
from upcl.data.io.images import encode_png

TEST_SESSIONS = {3, 7, 10}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with 11 sessions of 50 objects, two frames of each."""
    root = tmp_path_factory.mktemp("root")
    png = encode_png(np.zeros((3, 128, 128), np.uint8))
    places = [(s, o, frame) for s in range(1, 12) for o in range(1, 51) for frame in range(2)]
    names = [f"s{s}/o{o}/C_{s:02d}_{o:02d}_{frame:03d}.png" for s, o, frame in places]
    write_files(root / "core50_128x128", dict.fromkeys(names, png))
    return root


def test_original_layout_is_read(original: Path) -> None:
    dataset = load_dataset("core50", original)
    assert len(dataset.classes) == len(set(dataset.classes)) == 50
    assert dataset.classes[:6] == (*(f"plug adapter {k}" for k in range(1, 6)), "mobile phone 1")
    assert dataset.classes[-1] == "remote control 5"
    assert (len(dataset.train), len(dataset.test)) == (8 * 50 * 2, 3 * 50 * 2)
    for split in ("train", "test"):
        names = file_names(dataset, split)
        assert [int(name.split("_")[2]) - 1 for name in names] == getattr(dataset, split).labels.tolist()
        assert {int(name.split("_")[1]) in TEST_SESSIONS for name in names} == {split == "test"}
    assert dataset.image_shape == (3, 128, 128) and "164,866 were published" in dataset.notes[0]
    assert dataset.transform.to_json()["photos"]["margin"] == 1.0


def test_tasks_are_those_of_new_classes(original: Path) -> None:
    expected = (10, 5, 5, 5, 5, 5, 5, 5, 5)
    assert load_dataset("core50", original).tasks == expected
    assert load_dataset("core50/NC", original).tasks == expected
    assert load_dataset("core50/T5", original).tasks == 5
    assert load_dataset("core50:num_classes=12", original).tasks == (10, 2)


def test_categories_join_five_objects(original: Path) -> None:
    objects, categories = load_dataset("core50", original), load_dataset("core50:label=category", original)
    assert categories.name == "core50:label=category" and categories.tasks == 5
    assert categories.classes[:3] == ("plug adapter", "mobile phone", "scissors") and len(categories.classes) == 10
    assert categories.train.labels.tolist() == [label // 5 for label in objects.train.labels.tolist()]
    assert categories.fingerprint() != objects.fingerprint()
    small = load_dataset("core50:label=category,train=3,test=1", original)
    assert small.name == "core50:label=category,train=3,test=1" and len(small.train) == 30
    assert load_dataset("core50:held_out=0.5", original).name == "core50:held_out=0.5"


def test_unknown_label_is_refused(original: Path) -> None:
    with pytest.raises(UserError, match="unknown label of core50 'objcet': did you mean object"):
        load_dataset("core50:label=objcet", original)


@pytest.mark.parametrize(
    ("missing", "message"), [("s7", "core50_128x128 has no folder s7"), ("s2/o50", "s2 has no folder o50")]
)
def test_missing_folders_are_named(original: Path, tmp_path: Path, missing: str, message: str) -> None:
    shutil.copytree(original / "core50_128x128", tmp_path / "core50_128x128")
    shutil.rmtree(tmp_path / "core50_128x128" / missing)
    with pytest.raises(UserError, match=f"{message}: the copy is incomplete"):
        load_dataset("core50", tmp_path)
