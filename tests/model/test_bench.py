"""Measurements of learning photos, on few of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from upcl.model import bench
from upcl.training.pretrained import default_pretrained


def test_every_row_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench, "NUM_PHOTOS", 16)
    monkeypatch.setattr(bench, "PHOTO_SIZE", (64, 48))
    monkeypatch.setattr(bench, "SIZES", (80, 160))
    monkeypatch.setattr(bench, "MANY_CLASSES", 5)
    monkeypatch.setattr(bench, "MANY_PHOTOS", 20)
    monkeypatch.setenv("UPCL_CACHE", str(tmp_path))
    rows = list(bench.measure_photos(repeats=1))
    names = [row.name for row in rows]
    assert ("learning 16 photos" in names[0]) is bool(default_pretrained())
    assert names[-3:-1] == ["adding a class by photos learned", "bytes of a model by photos learned"]
    assert names[-1].startswith("adding a class to 5 (100 photos")
    assert all(row.value > 0 for row in rows if row.unit == "x" or row.unit == "ms")
    if default_pretrained():
        assert rows[0].target == 1.25 and rows[0].rule == "at most"


def test_the_size_of_a_model_grows_with_its_photos() -> None:
    small, large = bench.file_bytes(4, 20), bench.file_bytes(4, 120)
    assert large - small == pytest.approx(4 * 100 * 2 * bench.DIM, rel=0.3)
