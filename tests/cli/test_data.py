from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import Invoke
from tests.data.files import make_cub200
from upcl.cli.data import MAX_FILES


def save(path: Path, seed: int, size: int = 8) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes with a duplicate, an image in both classes, one in train and test, and many broken files."""
    folder = tmp_path / "photos"
    for part, name, seed in (
        ("train", "cat/a.png", 0),
        ("train", "cat/b.png", 0),
        ("train", "cat/c.png", 1),
        ("train", "[dog]/a.png", 1),
        ("train", "[dog]/b.png", 2),
        ("test", "[dog]/c.png", 2),
        ("test", "cat/d.png", 3),
    ):
        save(folder / part / name, seed)
    for index in range(MAX_FILES + 3):
        (folder / "train" / "cat" / f"broken{index}.jpg").write_text("not an image")
    return folder


def test_check_lists_classes_and_problems(photos: Path, invoke: Invoke) -> None:
    checked = invoke("data", "check", str(photos), columns=200)
    assert checked.exit_code == 0, checked.stderr
    lines = checked.stdout.splitlines()
    assert lines[0] == "2 classes, imbalance ratio 1.5"
    assert ["[dog]", "2", "1"] in [line.replace("│", "").split() for line in lines]
    assert ["cat", "3", "1"] in [line.replace("│", "").split() for line in lines]
    assert "sizes: 8x8 (7); grey: 0" in lines
    assert f"unreadable files: {MAX_FILES + 3}" in lines
    assert "  and 3 more (--json lists all)" in lines
    assert sum(line.startswith("  train/cat/broken") for line in lines) == MAX_FILES
    problems = lines[lines.index("folders without images: none") :]
    assert problems == [
        "folders without images: none",
        "duplicates within a class: 1",
        "  train/cat/a.png = train/cat/b.png",
        "same image in two classes: 1",
        "  train/[dog]/a.png = train/cat/c.png",
        "same image in train and test: 1",
        "  train/[dog]/b.png = test/[dog]/c.png",
    ]


def test_check_prints_the_complete_report_as_json(photos: Path, invoke: Invoke) -> None:
    report = json.loads(invoke("data", "check", str(photos), "--json").stdout)
    assert report["classes"]["cat"] == {"train": 3, "test": 1}
    assert len(report["broken"]) == MAX_FILES + 3


def test_check_describes_a_data_set_by_name(tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_cub200(tmp_path / "root")
    checked = invoke("data", "check", "cub200", "--data-root", str(tmp_path / "root"))
    assert checked.stdout.splitlines() == [
        "cub200: 3 classes, 4 training and 3 test images, 3x224x224",
        "training images per class: 1 to 2; test images per class: 1 to 1",
        "note: cub200 has 7 images, 11,788 were published: results are not comparable",
    ]
    report = json.loads(invoke("data", "check", "digits", "--json").stdout)
    assert sum(counts["train"] for counts in report["classes"].values()) == 1442 and report["notes"] == []


def test_check_finds_what_a_data_set_lacks(tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    missing = invoke("data", "check", "cub200", "--data-root", str(tmp_path))
    assert missing.exit_code and "run `upcl data get cub200`" in " ".join(missing.stderr.split())
    (make_cub200(tmp_path) / "images" / "003.Crow" / "Crow_0003.jpg").unlink()
    damaged = invoke("data", "check", "cub200", "--data-root", str(tmp_path), columns=300)
    assert damaged.exit_code and "Crow_0003.jpg is missing" in damaged.stderr
    compared = invoke("data", "check", "digits", "--model", "x.upcl")
    assert compared.exit_code and "--model compares the photos of a folder" in compared.stderr
    save(tmp_path / "digits" / "one" / "1.png", 0)
    assert invoke("data", "check", "digits").stdout.startswith("1 classes"), "a folder of that name has precedence"


def test_get_downloads_into_the_data_root(tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    from upcl.data.io import download

    monkeypatch.setattr(download, "download_dataset", lambda name, root: root / name)
    done = invoke("data", "get", "cifar100", "--data-root", str(tmp_path))
    assert done.stdout == f"cifar100 is in {tmp_path / 'cifar100'}\n"
