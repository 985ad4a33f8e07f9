"""What to look at next."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.studio.taught import add_photos, needs_photos, teach
from upcl.core.errors import UserError
from upcl.model.studio.review import review
from upcl.model.studio.teacher import Teacher

pytestmark = needs_photos


def test_wrong_labels_and_classes_in_need_are_found(photos: Path, tmp_path: Path) -> None:
    teacher = teach(tmp_path / "kinds.upcl", photos, num=12)
    wrong = add_photos(teacher, photos / "first" / "kind 0", 1, first=15)
    teacher.label(wrong, "kind 2")
    teacher.label(add_photos(teacher, photos / "second" / "kind 3", 3), "kind 3")
    found = review(teacher)
    assert (found.doubts[0].digest, found.doubts[0].label, found.doubts[0].likely) == (wrong[0], "kind 2", "kind 0")
    assert found.needs["kind 3"] == "only 3 training photos"
    digests = {digest for confusion in found.confusions for digest in confusion.digests}
    assert all(teacher.labels()[digest][1] for digest in digests), "confusions are of held-out photos"


def test_nothing_is_found_in_nothing(tmp_path: Path) -> None:
    found = review(Teacher(tmp_path / "new.upcl"))
    assert not (found.doubts or found.confusions or found.duplicates or found.outliers or found.needs)


def test_what_was_confirmed_is_not_asked_again(photos: Path, tmp_path: Path) -> None:
    teacher = teach(tmp_path / "kinds.upcl", photos, num=12)
    wrong = add_photos(teacher, photos / "first" / "kind 0", 1, first=15)
    teacher.label(wrong, "kind 2")
    assert review(teacher).doubts[0].digest == wrong[0]
    version = teacher.version
    teacher.confirm(wrong)
    assert wrong[0] not in {doubt.digest for doubt in review(teacher).doubts} and teacher.version != version
    teacher.label(wrong, "kind 1")
    assert review(teacher).doubts[0].digest == wrong[0], "it was confirmed for another class"
    first, second, _ = review(teacher).duplicates[0]
    teacher.confirm([second, first])
    assert {first, second} not in [{*pair[:2]} for pair in review(teacher).duplicates]
    with pytest.raises(UserError, match="no label"):
        teacher.confirm(["0" * 16])
