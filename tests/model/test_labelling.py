"""Photos of a folder to label next."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.feature_models import grow, spec
from upcl.core.errors import UserError
from upcl.model.file import save
from upcl.model.labelling import photos_to_label
from upcl.model.learner import Learner


@pytest.fixture
def learner(photos: Path, tmp_path: Path) -> Learner:
    """A model on features that learned the first photos."""
    save(grow(None, {"ant": range(6), "cat": range(6)}), tmp_path / "m.upcl")
    return Learner(tmp_path / "m.upcl", device="cpu").learn(photos / "first")


def test_suggestions_are_new_photos_with_a_proposal(learner: Learner, photos: Path) -> None:
    found = photos_to_label(learner, photos / "second", num=7)
    assert len({photo.path for photo in found}) == 7
    assert all((photos / "second" / photo.path).is_file() for photo in found)
    assert all(0 < photo.confidence <= 1 and photo.gain >= 0 for photo in found)
    assert {photo.proposal for photo in found} <= {*learner.classes, "none of these"}
    assert len(photos_to_label(learner, photos / "second", num=1000)) == 60


def test_photos_that_the_model_knows_are_left_out(learner: Learner, photos: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the model knows all its photos"):
        photos_to_label(learner, photos / "first", num=3)
    paths = {photo.path for photo in photos_to_label(learner, photos, num=1000)}
    assert paths and not any(path.startswith("first/") for path in paths)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.jpg").write_bytes(b"no image")
    with pytest.raises(UserError, match="none of its photos can be read"):
        photos_to_label(learner, tmp_path / "broken", num=3)


def test_a_model_without_features_of_its_photos_works(photos: Path, tmp_path: Path) -> None:
    save(grow(None, {"ant": range(6), "cat": range(6)}, made_with=spec(keep="none")), tmp_path / "m.upcl")
    assert len(photos_to_label(Learner(tmp_path / "m.upcl", device="cpu"), photos / "first", num=3)) == 3


def test_a_trained_network_is_refused(model_file: Path, photos: Path) -> None:
    with pytest.raises(UserError, match="needs a model on features"):
        photos_to_label(Learner(model_file, device="cpu"), photos, num=3)
