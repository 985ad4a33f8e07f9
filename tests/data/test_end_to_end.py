"""Data sets from files, through training and the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.data.files import (
    make_cub200,
    make_eurosat,
    make_faulty_folder,
    make_folder,
    noise,
    photo_folder,
    save,
    smooth_image,
)
from upcl import Request, UserError, run
from upcl.cli import main
from upcl.research.verify import verify_resume


def invoke(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result


def test_folder_with_a_test_split_trains_on_it(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos" / "train", per_class=6)
    for k in range(3):
        save(tmp_path / "photos" / "test" / f"class {k}" / "t.png", noise(900 + k))
    record = run(Request(method="finetune", data=f"folder:{tmp_path / 'photos'}", tasks=3, epochs=1, backbone="small"))
    assert record.finished and sorted(record.classes) == ["class 0", "class 1", "class 2"]
    assert [sum(row) for row in record.confusion.head] == [1, 1, 1], "one test image per class"


def test_faults_of_a_folder_reach_the_record(tmp_path: Path) -> None:
    folder = make_faulty_folder(tmp_path / "photos")
    notes = run(Request(method="finetune", data=f"folder:{folder}", tasks=2, epochs=1, backbone="small")).notes
    for fault in ("broken.jpg", "in both train and test", "in more than one class"):
        assert any(fault in note for note in notes)


def test_too_many_tasks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="9 tasks"):
        run(Request(method="finetune", data=f"folder:{make_folder(tmp_path / 'few', per_class=2)}", tasks=9))


@pytest.fixture
def photos(tmp_path: Path) -> str:
    """Images that are cropped from their files in every batch."""
    return photo_folder(tmp_path / "own", per_class=6)


def test_photos_in_files_train_alike_and_resume(tmp_path: Path, photos: str) -> None:
    request = Request(method="upcl", data=photos, tasks=2, epochs=2, backbone="small", memory="4", recipe="quick")
    check = verify_resume(request, tmp_path, kills=1)
    assert check.differences == []
    record = run(request)
    assert record.weights_sha256 == check.weights_sha256, "the same request gives the same weights"
    assert record.config.transform["photos"]["size"] == 72
    assert str(tmp_path) not in str(record.config.transform)


def test_imagenet100_trains_on_a_list_from_a_file(tmp_path: Path) -> None:
    wnids = [f"n{k:08d}" for k in range(3)]
    for split in ("train", "val"):
        for k, wnid in enumerate(wnids):
            (tmp_path / "imagenet100" / split / wnid).mkdir(parents=True)
            smooth_image(40, 30, k).save(tmp_path / "imagenet100" / split / wnid / "a.JPEG")
    (tmp_path / "two.txt").write_text("\n".join(wnids[1:]))
    data = f"imagenet100:list={tmp_path / 'two.txt'}"
    request = Request(method="finetune", data=data, tasks=1, epochs=1, recipe="quick", backbone="small")
    record = run(request, data_root=tmp_path)
    assert record.data == data and sorted(record.classes) == wnids[1:]
    assert "list" in record.notes[0]


@pytest.mark.parametrize("make", [make_cub200, lambda root: make_eurosat(root / "EuroSAT_RGB", per_class=2)])
def test_original_layouts_train(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    name = "cub200" if make is make_cub200 else "eurosat"
    make(tmp_path)
    request = Request(method="icarl", data=name, tasks=2, epochs=1, recipe="quick", backbone="small", memory="10")
    record = run(request, data_root=tmp_path)
    assert record.finished and record.data == name and len(record.classes) in (3, 10)
    assert any("results are not comparable" in note for note in record.notes)


def test_check_reads_class_folders_of_original_layouts(tmp_path: Path) -> None:
    report = json.loads(invoke("data", "check", make_cub200(tmp_path) / "images", "--json").stdout)
    assert report["classes"]["003.Crow"] == {"train": 3, "test": 0} and report["broken"] == []
    report = json.loads(invoke("data", "check", make_eurosat(tmp_path / "2750", per_class=2), "--json").stdout)
    assert len(report["classes"]) == 10 and report["sizes"] == {"64x64": 20}


def test_check_prints_every_fault(tmp_path: Path) -> None:
    folder = make_faulty_folder(tmp_path / "photos")
    output = invoke("data", "check", folder).output
    assert all(name in output for name in ("broken.jpg", "twin.bmp", "stray.png", "leak.png", "train/nothing"))
    report = json.loads(invoke("data", "check", folder, "--json").stdout)
    assert list(report) == [
        "classes",
        "sizes",
        "grey",
        "imbalance",
        "broken",
        "empty",
        "duplicates",
        "label_conflicts",
        "train_test_leaks",
        "layout_notes",
    ]
    assert report["train_test_leaks"] == [["train/class 1/3.png", "test/class 1/leak.png"]]


def test_names_that_are_not_utf8_can_be_checked_and_trained(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "photos", classes=1, per_class=4)
    odd = Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9"))
    for i in range(4):
        save(odd / f"{i}.png", noise(200 + i))
    (odd / os.fsdecode(b"\xff.png")).write_bytes(b"broken")
    assert "caf\\xe9/\\xff.png" in invoke("data", "check", root).output
    out = tmp_path / "run"
    invoke(
        "train",
        "finetune",
        "--data",
        f"folder:{root}",
        "--tasks",
        2,
        "--epochs",
        1,
        "--backbone",
        "small",
        "--out",
        out,
    )
    assert "caf\\xe9" in json.loads((out / "record.json").read_text())["classes"]
