"""Teaching: every change is learned and saved at once, and can be taken back."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.model.studio.taught import add_photos, needs_photos, teach
from upcl.core.errors import UserError
from upcl.model.file import load
from upcl.model.learner import Learner
from upcl.model.photo_features import photo_digest
from upcl.model.predictor import NONE_OF_THESE
from upcl.model.studio.teacher import Teacher

pytestmark = needs_photos


def test_a_model_grows_from_nothing_and_is_saved_at_every_step(photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "kinds.upcl"
    teacher = Teacher(path, device="cpu")
    waiting = add_photos(teacher, photos / "first" / "kind 0", 8)
    assert [photo.digest for photo in teacher.unlabelled()] == waiting and teacher.answers(None)[0].answer is None
    teacher.label(waiting, "kind 0")
    assert load(path).state.class_names == ["kind 0"] and not teacher.unlabelled()
    num = len(load(path).state.held_out)
    assert 1 <= num <= 3, "a fifth is held out"
    teacher.label(add_photos(teacher, photos / "first" / "kind 1", 2), "kind 1")
    assert len(load(path).state.held_out) == num, "all of few photos are learned from"
    again = Teacher(path, device="cpu")
    assert again.labels() == teacher.labels() and again.workspace.photos.keys() == teacher.workspace.photos.keys()
    assert {answer.answer for answer in again.answers("kind 1")} == {"kind 1"}


def test_the_model_is_what_learn_makes_of_the_same_photos(photos: Path, tmp_path: Path) -> None:
    teacher = teach(tmp_path / "taught.upcl", photos, num=20)
    learned = Learner(tmp_path / "learned.upcl", device="cpu").learn(photos / "first", backbone="efficientnet-lite0")
    state, expected = teacher.learner.require_bundle().state, learned.require_bundle().state
    assert (state.trained, state.tested, state.classes) == (expected.trained, expected.tested, expected.classes)
    for name in ("head.weight", "head.bias", "familiarity.means"):
        torch.testing.assert_close(state.weights[name], expected.weights[name], atol=1e-5, rtol=1e-4)


def test_a_correction_is_learned_at_once_and_undone(photos: Path, tmp_path: Path) -> None:
    teacher = teach(tmp_path / "kinds.upcl", photos)
    teacher._find_known()
    (photo,) = add_photos(teacher, photos / "second" / "kind 3", 1)
    teacher.label([photo], "kind 1")
    assert teacher.answers("kind 1")[0].label == "kind 1" and photo in teacher.labels()
    step = len(teacher.learner.require_bundle().history) - 1
    with pytest.raises(UserError, match="changed in the meantime"):
        teacher.undo(step - 1)
    teacher.undo(step)
    assert [waiting.digest for waiting in teacher.unlabelled()] == [photo]
    assert photo not in str(load(tmp_path / "kinds.upcl").state.trained)
    while teacher.can_undo():
        teacher.undo(len(teacher.learner.require_bundle().history) - 1)
    assert not (tmp_path / "kinds.upcl").exists() and len(teacher.unlabelled()) == 25, "back to no model at all"
    teacher.label([photo], "kind 3")
    assert load(tmp_path / "kinds.upcl").state.class_names == ["kind 3"]


def test_photos_of_other_things_are_none_of_these(photos: Path, tmp_path: Path) -> None:
    teacher = teach(tmp_path / "kinds.upcl", photos)
    others = add_photos(teacher, photos / "second" / "kind 3", 6)
    teacher.label(others[:4], NONE_OF_THESE)
    answers = {answer.digest: answer.answer for answer in teacher.answers(None)}
    assert set(answers) == set(others[4:]) and set(answers.values()) == {NONE_OF_THESE}
    found = next(teacher.learner.predictor.predict_files([photos / "second" / "kind 3" / "7.png"])).prediction
    assert found and found.name == NONE_OF_THESE and not found.known


def test_rename_merge_split_and_forget(photos: Path, tmp_path: Path) -> None:
    teacher = teach(tmp_path / "kinds.upcl", photos)
    teacher.plan_class("empty")
    with pytest.raises(UserError, match="already"):
        teacher.plan_class("kind 0")
    for name, taken in (("empty", "kind 0"), ("kind 0", "empty")):
        with pytest.raises(UserError, match="already"):
            teacher.rename(name, taken)
    teacher.rename("empty", "still empty")
    teacher.forget("still empty")
    assert not teacher.workspace.planned_classes
    teacher.rename("kind 0", "zero")
    teacher.merge("kind 1", "zero")
    assert teacher.learner.classes == ["zero", "kind 2"] and len(teacher.answers("zero")) == 16
    with pytest.raises(UserError, match="no class 'kind 1'"):
        teacher.merge("kind 1", "zero")
    half = [answer.digest for answer in teacher.answers("zero")][:8]
    teacher.label(half, "new half")
    assert len(teacher.answers("zero")) == len(teacher.answers("new half")) == 8
    teacher.forget("zero")
    assert teacher.learner.classes == ["kind 2", "new half"] and not teacher.can_undo()
    kept = {path.stem for path in teacher.workspace.folder.glob("*.png")}
    assert kept == set(teacher.labels()), "the photos of the class are gone from the disk"
    teacher.forget("kind 2")
    teacher.forget("new half")
    assert teacher.bundle is None and not teacher.workspace.photos


def test_a_deleted_photo_is_gone_from_disk_and_model(photos: Path, tmp_path: Path) -> None:
    teacher = teach(tmp_path / "kinds.upcl", photos)
    first = photo_digest(photos / "first" / "kind 0" / "0.png")
    teacher.discard([first])
    assert first not in teacher.labels() and first not in teacher.workspace.photos and not teacher.can_undo()
    with pytest.raises(UserError, match="no such photo"):
        teacher.label([first], "kind 0")
    teacher.label([answer.digest for answer in teacher.answers("kind 1")], None)
    assert teacher.learner.classes == ["kind 0", "kind 2"] and len(teacher.unlabelled()) == 8
    assert teacher.can_undo()


def test_an_interrupted_upload_for_a_class_is_labelled(photos: Path, tmp_path: Path) -> None:
    teacher = teach(tmp_path / "kinds.upcl", photos)
    files = sorted((photos / "second" / "kind 3").iterdir())[:3]
    teacher.extract([teacher.add(file.name, file.read_bytes(), intended=" kind 3 ") for file in files])
    assert "kind 3" not in teacher.learner.classes
    again = Teacher(tmp_path / "kinds.upcl", device="cpu")
    again.label_intended()
    assert len(again.answers("kind 3")) == 3
    again.undo(len(again.learner.require_bundle().history) - 1)
    again.label_intended()
    assert "kind 3" not in again.learner.classes, "it was labelled once"


def test_two_teachers_of_one_file_do_not_harm_each_other(photos: Path, tmp_path: Path) -> None:
    first = teach(tmp_path / "kinds.upcl", photos)
    second = Teacher(tmp_path / "kinds.upcl", device="cpu")
    second.rename("kind 0", "zero")
    first.label(add_photos(first, photos / "second" / "kind 4", 2), "kind 4")
    assert first.learner.classes == ["zero", "kind 1", "kind 2", "kind 4"]
    assert second.bundle and second.bundle.state.class_names == first.learner.classes


def test_models_that_cannot_be_taught_are_refused(
    model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="closed form"):
        Teacher(model_file)
    monkeypatch.setattr("upcl.model.studio.collection.default_pretrained", lambda: None)
    with pytest.raises(UserError, match=r"upcl\[photos\]"):
        Teacher(tmp_path / "new.upcl")
