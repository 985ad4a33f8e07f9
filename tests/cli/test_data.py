from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import Invoke
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


def test_get_downloads_into_the_data_root(tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    from upcl.data.io import download

    monkeypatch.setattr(download, "download_dataset", lambda name, root: root / name)
    done = invoke("data", "get", "cifar100", "--data-root", str(tmp_path))
    assert done.stdout == f"cifar100 is in {tmp_path / 'cifar100'}\n"
