from __future__ import annotations

import json
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.data.conftest import ProgressRecorder
from tests.data.files import make_faulty_folder, make_folder, noise, png_of_claimed_size, save
from upcl.data.io.scan import scan_folder


def test_scan_finds_every_fault(tmp_path: Path) -> None:
    report, files = scan_folder(make_faulty_folder(tmp_path / "photos"))
    assert report.classes == {"class 0": {"train": 5, "test": 1}, "class 1": {"train": 5, "test": 2}}
    assert report.broken == [("train/class 0/broken.jpg", "not a supported image format")]
    assert report.empty == ["train/nothing"]
    assert report.duplicates == [["train/class 0/1.png", "train/class 0/twin.bmp"]]
    assert report.label_conflicts == [["train/class 0/2.png", "train/class 1/stray.png"]]
    assert report.train_test_leaks == [["train/class 1/3.png", "test/class 1/leak.png"]]
    assert report.sizes == {"16x16": 13} and report.grey == 0 and report.imbalance == 1.0
    assert len(files) == 13 and not any(file.error for file in files)
    assert list(report.notes()) == [
        "1 file skipped: cannot be read, such as train/class 0/broken.jpg: not a supported image format",
        "folders without images: train/nothing",
        "1 image more than once in a class, such as train/class 0/1.png = train/class 0/twin.bmp",
        "1 image in more than one class, such as train/class 0/2.png = train/class 1/stray.png",
        "1 image in both train and test, such as train/class 1/3.png = test/class 1/leak.png",
    ]
    content = report.to_json()
    assert json.loads(json.dumps(content))["train_test_leaks"] == report.train_test_leaks


def test_sound_folder_has_no_notes(tmp_path: Path) -> None:
    report, files = scan_folder(make_folder(tmp_path / "photos"))
    assert list(report.notes()) == [] and len(files) == 30


def test_sizes_colours_and_imbalance_are_counted(tmp_path: Path) -> None:
    for i in range(3):
        save(tmp_path / "a" / f"{i}.png", noise(i, 10, 20))
    save(tmp_path / "b" / "0.png", noise(9)[:, :, 0])
    report, files = scan_folder(tmp_path)
    assert report.sizes == {"20x10": 3, "16x16": 1} and next(iter(report.sizes)) == "20x10"
    assert (report.grey, report.imbalance) == (1, 3.0)
    assert [(file.width, file.height, file.grey) for file in files] == [(20, 10, False)] * 3 + [(16, 16, True)]


def test_class_of_broken_files_is_reported(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "photos", classes=2, per_class=2)
    (root / "gone").mkdir()
    for name in ("x.png", "y.png"):
        (root / "gone" / name).write_bytes(b"x")
    report, _ = scan_folder(root)
    assert report.classes["gone"] == {"train": 0, "test": 0} and report.imbalance == 1.0
    notes = list(report.notes())
    assert notes[0].startswith("2 files skipped: cannot be read") and notes[0].endswith("lists all)")
    assert notes[1] == "classes skipped: none of their files can be read: gone"


def test_equal_pixels_of_another_shape_are_no_duplicates(tmp_path: Path) -> None:
    pixels = noise(0, 4, 9)
    save(tmp_path / "a" / "0.png", pixels)
    save(tmp_path / "a" / "1.png", pixels.reshape(9, 4, 3))
    assert scan_folder(tmp_path)[0].duplicates == []


def test_progress_adds_up_and_unchanged_folder_is_not_read_again(tmp_path: Path, progress: ProgressRecorder) -> None:
    root = make_folder(tmp_path / "photos", classes=2, per_class=4)
    (root / "class 0" / "broken.png").write_bytes(b"x")
    first = scan_folder(root)
    work = progress.only()
    assert (work.description, work.total, work.completed, work.unit) == ("reading images", 9, 9, "items")
    assert work.finished
    assert scan_folder(root) == first and len(progress.work) == 1
    save(root / "class 0" / "broken.png", noise(77))
    assert scan_folder(root)[0].broken == [] and len(progress.work) == 2


def test_errors_of_the_system_are_tried_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_folder(tmp_path / "photos", classes=2, per_class=3)
    original = Image.open

    def refuse(path: Any, **options: Any) -> Any:
        if Path(path.name).name == "0.png":
            raise PermissionError(13, "Permission denied")
        return original(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Image, "open", refuse)
        assert [reason for _, reason in scan_folder(root)[0].broken] == ["Permission denied"] * 2
    assert not scan_folder(root)[0].broken


@pytest.mark.parametrize("action", ["error", "ignore"])
@pytest.mark.parametrize("side", [10_500, 40_000])
def test_image_with_too_many_pixels_is_reported_by_name(tmp_path: Path, action: str, side: int) -> None:
    root = make_folder(tmp_path / "photos", classes=2, per_class=1)
    (root / "class 0" / "bomb.png").write_bytes(png_of_claimed_size(side, side))
    with warnings.catch_warnings():
        warnings.simplefilter(action)  # type: ignore[arg-type]
        report, files = scan_folder(root)
    ((name, reason),) = report.broken
    assert name == "class 0/bomb.png" and "pixels" in reason and len(files) == 2


def test_concurrent_scans_agree(tmp_path: Path, cache: Path) -> None:
    root = make_folder(tmp_path / "photos")
    with ThreadPoolExecutor(4) as pool:
        reports = [report for report, _ in pool.map(lambda _: scan_folder(root), range(4))]
    assert all(report == reports[0] for report in reports)
    assert reports[0].classes == {f"class {k}": {"train": 10, "test": 0} for k in range(3)}
    assert [path.suffix for path in cache.iterdir()] == [".json"]


@pytest.mark.parametrize("damage", ["", "[", "[]", "3", '[{"width": 1}]', "[1, 2, 3, 4]", "[" * 100_000])
def test_damaged_cache_is_rebuilt(tmp_path: Path, cache: Path, damage: str) -> None:
    root = make_folder(tmp_path / "photos", classes=2, per_class=2)
    first = scan_folder(root)
    (file,) = cache.iterdir()
    content = file.read_text()
    file.write_text(damage)
    assert scan_folder(root) == first and file.read_text() == content


def test_cache_that_cannot_be_written_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    root = make_folder(tmp_path / "photos", classes=2, per_class=2)
    first = scan_folder(root)
    (tmp_path / "file").touch()
    monkeypatch.setenv("UPCL_CACHE", str(tmp_path / "file"))
    assert scan_folder(root) == first
    assert "cannot be written" in caplog.text
