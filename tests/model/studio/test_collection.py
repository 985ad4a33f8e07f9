"""All photos with their labels and answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.studio.taught import add_photos, needs_photos, teach
from upcl.core.errors import UserError
from upcl.model.studio.collection import Collection

pytestmark = needs_photos


def test_answers_features_and_pictures(photos: Path, tmp_path: Path) -> None:
    teacher = teach(tmp_path / "kinds.upcl", photos)
    waiting = add_photos(teacher, photos / "first" / "kind 0", 2, first=12)
    collection = Collection(tmp_path / "kinds.upcl", "cpu")
    answers = collection.answers(None)
    assert [answer.digest for answer in answers] == waiting and {answer.answer for answer in answers} == {"kind 0"}
    assert answers[0].file == "kind 0/2.png" and answers[0].label is None and 0 < answers[0].confidence <= 1
    known = collection.answers("kind 1")
    assert len(known) == 8 and all(answer.label == "kind 1" for answer in known)
    assert collection.features(waiting).shape == (2, 1280)
    assert collection.picture(waiting[0]) and collection.picture("0" * 16) is None
    with pytest.raises(UserError, match="no such photo"):
        collection.features(["0" * 16])


def test_a_photo_that_disappeared_from_the_disk_is_left_out(photos: Path, tmp_path: Path) -> None:
    teacher = teach(tmp_path / "kinds.upcl", photos)
    (gone,) = add_photos(teacher, photos / "second" / "kind 3", 1)
    path = teacher.workspace.photos[gone].path
    path.write_bytes(b"words")
    assert gone not in {photo.digest for photo in Collection(tmp_path / "kinds.upcl", "cpu").unlabelled()}


def test_a_photo_is_shown_when_it_was_looked_at(photos: Path, tmp_path: Path) -> None:
    collection = Collection(tmp_path / "kinds.upcl", "cpu")
    path = photos / "second" / "kind 3" / "0.png"
    photo = collection.workspace.add(path.name, path.read_bytes())
    assert collection.answers(None) == []
    collection.extract([photo])
    assert [answer.digest for answer in collection.answers(None)] == [photo.digest]
