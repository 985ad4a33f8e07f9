"""What the page shows."""

from __future__ import annotations

from pathlib import Path

from tests.model.studio.taught import add_photos, needs_photos, teach
from upcl.model.studio.description import describe, describe_photo
from upcl.model.studio.teacher import Teacher

pytestmark = needs_photos


def test_an_empty_model_is_described(tmp_path: Path) -> None:
    found = describe(Teacher(tmp_path / "new.upcl"))
    assert (found["classes"], found["accuracy"], found["undo"], found["history"]) == ([], None, None, [])


def test_the_model_and_its_photos_are_described(photos: Path, tmp_path: Path) -> None:
    teacher = teach(tmp_path / "kinds.upcl", photos)
    (photo,) = add_photos(teacher, photos / "first" / "kind 0", 1, first=12)
    teacher.plan_class("planned")
    found = describe(teacher)
    assert [part["name"] for part in found["classes"]] == ["kind 0", "kind 1", "kind 2", "planned"]
    assert found["unlabelled"] == 1 and found["undo"]["step"] == 2 and len(found["history"]) == 3
    assert found["accuracy"]["low"] <= found["accuracy"]["percent"] <= found["accuracy"]["high"]
    described = describe_photo(teacher, photo)
    assert described["answer"] == described["top"][0]["name"] == "kind 0" and described["label"] is None
    assert described["nearest"][0]["name"] == "kind 0" and described["nearest"][0]["nearness"] <= 1
