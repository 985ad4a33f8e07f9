from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.model.photos import QUICK, noise, save_images
from upcl import UserError
from upcl.model.bundle import Bundle
from upcl.model.file import load
from upcl.model.intake import NothingNewError, image_digest
from upcl.model.learner import Learner
from upcl.model.predictor import NONE_OF_THESE


def test_a_model_grows_without_the_old_photos(model_file: Path, photos: Path) -> None:
    learner = Learner(model_file)
    assert learner.classes == [f"kind {label}" for label in range(6)]
    bundle = learner.require_bundle()
    assert [entry.added for entry in bundle.history] == [
        ("kind 0", "kind 1", "kind 2"),
        ("kind 3", "kind 4", "kind 5"),
    ]
    assert bundle.state.exemplars.counts(6).tolist() == [4] * 6
    assert bundle.state.held_out.counts(6).tolist() == [4] * 6, "a fifth of 20"
    accuracy = bundle.history[1].best_accuracy
    assert accuracy is not None and accuracy >= 60
    folders = photos / "first" / "kind 0", photos / "second" / "kind 4"
    names = learner.predict([path for folder in folders for path in sorted(folder.iterdir())])
    assert np.mean(names == np.repeat(["kind 0", "kind 4"], 20)) > 0.6


def test_held_out_images_are_never_learned_from(bundle: Bundle) -> None:
    for state in bundle.states.values():
        held_out = {image_digest(image) for image in state.held_out.inputs}
        assert held_out and not held_out & {image_digest(image) for image in state.exemplars.inputs}
        assert not held_out & {digest for digests in state.trained.values() for digest in digests}


def test_images_learned_from_are_never_held_out_later(photos: Path, tmp_path: Path) -> None:
    both = Path(shutil.copytree(photos / "first", tmp_path / "both"))
    learner = Learner(tmp_path / "m.upcl").learn(both, QUICK)
    before = learner.require_bundle().state
    shutil.copytree(photos / "second", both, dirs_exist_ok=True)
    for folder in both.iterdir():
        for path in sorted(folder.iterdir())[::3]:
            path.rename(folder / f"a{path.name}")  # another order, so another split
    after = learner.learn(both, QUICK, memory="6/class").require_bundle()
    assert after.history[-1].extra == {}, "none of these images is new"
    trained = {digest for digests in before.trained.values() for digest in digests}
    assert not trained & {image_digest(image) for image in after.state.held_out.inputs}
    assert set(after.state.trained) == {f"kind {label}" for label in range(6)}
    assert after.spec.memory == "6/class"


def test_the_same_images_again_are_refused(own_copy: Path, tmp_path: Path) -> None:
    exemplars = load(own_copy).state.exemplars
    save_images(tmp_path / "again" / "kind 0", exemplars.inputs[exemplars.labels == 0])
    before = own_copy.read_bytes()
    with pytest.raises(NothingNewError, match="already has every one of these images"):
        Learner(own_copy).learn(tmp_path / "again", QUICK)
    assert own_copy.read_bytes() == before


def test_images_known_under_another_name_are_reported(own_copy: Path, photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos / "first" / "kind 1", tmp_path / "wrong" / "robin")
    with pytest.raises(UserError, match="20 images of robin left out: known as kind 1"):
        Learner(own_copy).learn(tmp_path / "wrong", QUICK)
    save_images(tmp_path / "wrong" / "robin" / "unseen", noise(3))
    learner = Learner(own_copy).learn(tmp_path / "wrong", QUICK)
    assert any(note.startswith("20 images of robin left out") for note in learner.notes)
    assert "robin" in learner.classes


def test_more_images_next_to_a_new_class_are_stored_once(photos: Path, tmp_path: Path) -> None:
    some, rest, one = tmp_path / "some", tmp_path / "rest", tmp_path / "one" / "kind 1"
    for folder in (photos / "first").iterdir():
        files = sorted(folder.iterdir())
        for part, chosen in ((some, files[:10]), (rest, files[10:])):
            (part / folder.name).mkdir(parents=True)
            for file in chosen:
                shutil.copy(file, part / folder.name)
    shutil.copytree(photos / "second" / "kind 3", rest / "kind 3")
    one.mkdir(parents=True)
    shutil.move(next((rest / "kind 1").iterdir()), one)
    learner = Learner(tmp_path / "m.upcl").learn(some, QUICK).learn(rest, QUICK, memory="20/class")
    digests = [image_digest(image) for image in learner.require_bundle().state.exemplars.inputs]
    assert len(digests) == len(set(digests)) and learner.require_bundle().history[-1].extra["kind 0"] > 0
    learner.learn(one.parent, QUICK)
    assert learner.require_bundle().history[-1].extra == {"kind 1": 1}, "a single photo is accepted, too"


def test_one_image_per_class_is_learned_and_no_accuracy_claimed(photos: Path, tmp_path: Path) -> None:
    for name in ("kind 0", "kind 1"):
        (tmp_path / "few" / name).mkdir(parents=True)
        shutil.copy(photos / "first" / name / "0.png", tmp_path / "few" / name)
    entry = Learner(tmp_path / "m.upcl").learn(tmp_path / "few", QUICK).require_bundle().history[-1]
    assert entry.accuracy == {} and entry.by_class == {"kind 0": None, "kind 1": None} and entry.images == 2


def test_images_of_a_test_folder_are_held_out(photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos / "first", tmp_path / "photos" / "train")
    shutil.copytree(photos / "extra", tmp_path / "photos" / "test")
    shutil.copytree(photos / "second" / "kind 4", tmp_path / "photos" / "test" / "ghost")
    learner = Learner(tmp_path / "m.upcl").learn(tmp_path / "photos", QUICK, epochs=1)
    state = learner.require_bundle().state
    assert state.held_out.counts(3).tolist() == [0, 9, 0] and len(state.trained["kind 0"]) == 20
    assert any("without training images: ghost" in note for note in learner.notes)


def test_a_folder_without_readable_images_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    (tmp_path / "photos" / "cat" / "x.png").write_text("no image")
    with pytest.raises(UserError, match=r"no readable image to learn from; first error: cat/x\.png"):
        Learner(tmp_path / "m.upcl").learn(tmp_path / "photos")
    assert not (tmp_path / "m.upcl").exists()


def test_one_file_or_several_can_be_predicted(model_file: Path, photos: Path) -> None:
    path = photos / "first" / "kind 0" / "0.png"
    learner = Learner(model_file)
    assert learner.predict(path).tolist() == learner.predict(str(path)).tolist() == learner.predict([path]).tolist()
    assert learner.predict([]).shape == (0,)
    names = set(learner.predict(sorted(photos.rglob("*.png"))).tolist())
    assert names <= {*learner.classes, NONE_OF_THESE}


def test_a_file_that_cannot_be_read_is_named(model_file: Path, tmp_path: Path) -> None:
    (tmp_path / "x.png").write_text("no image")
    with pytest.raises(UserError, match=r"x\.png cannot be read"):
        Learner(model_file).predict([tmp_path / "x.png"])


def test_a_missing_model_suggests_a_similar_file(model_file: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"did you mean {model_file.name}"):
        Learner(model_file.with_name("kinds2.upcl")).require_bundle()
    with pytest.raises(UserError, match=r"create it with `upcl learn FOLDER --model .*x\.upcl`"):
        Learner(tmp_path / "x.upcl").predict("photo.jpg")


def test_two_learners_do_not_change_one_file_at_once(photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.upcl"
    first = Learner(path).learn(photos / "first", QUICK, epochs=1)
    second = Learner(path)
    with first.exclusive(), pytest.raises(UserError, match="being changed by another process"):
        second.learn(photos / "second", QUICK)
    first.learn(photos / "second", QUICK, epochs=1)
    second.forget("kind 0")  # starts from the file as it is now
    assert len(load(path).history) == 3 and "kind 5" in Learner(path).classes


def test_the_lock_file_stays(own_copy: Path) -> None:
    Learner(own_copy).rollback(0)
    lock = own_copy.with_name(f".{own_copy.name}.lock")
    assert lock.exists(), "another process may be waiting for it"
    assert sorted(path.name for path in own_copy.parent.iterdir()) == [lock.name, own_copy.name]


def test_rolling_back_restores_predictions(own_copy: Path) -> None:
    learner = Learner(own_copy)
    assert len(learner.predictor.predict(noise(1)).top(9)[0].names) == 6
    learner.rollback(0)
    assert learner.classes == ["kind 0", "kind 1", "kind 2"]
    assert len(learner.predictor.predict(noise(1)).top(9)[0].names) == 3
    assert Learner(own_copy).classes == learner.classes
    with pytest.raises(UserError, match=r"step 7 is not stored in .*: choose from 0$"):
        learner.rollback(7)


def test_a_pickled_learner_predicts_the_same(model_file: Path) -> None:
    learner = Learner(model_file)
    expected = learner.predictor.predict(noise(4)).confidence
    again = pickle.loads(pickle.dumps(learner))
    assert np.array_equal(again.predictor.predict(noise(4)).confidence, expected)


def test_grey_photos_make_a_grey_model(tmp_path: Path) -> None:
    for label, value in (("dark", 10), ("light", 240)):
        folder = tmp_path / "photos" / label
        folder.mkdir(parents=True)
        for number in range(4):
            Image.new("L", (12, 10), value + number).save(folder / f"{number}.png")
    spec = Learner(tmp_path / "m.upcl").learn(tmp_path / "photos", QUICK, epochs=1, size=16).require_bundle().spec
    assert (spec.channels, spec.size) == (1, 16)


@pytest.mark.parametrize(("side", "reason"), [(8, "a typical image has 8 pixels per side"), (40, "pip install")])
def test_why_training_is_from_scratch_is_said_before_it_begins(
    side: int,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("upcl.model.options.default_pretrained", lambda: None)
    monkeypatch.setattr("upcl.model.learner.apply_update", lambda *_: pytest.fail("training begins", pytrace=False))
    for k, name in enumerate(("cat", "dog")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.new("RGB", (side, side), (200 * k, 0, 0)).save(tmp_path / "photos" / name / "0.png")
    with pytest.raises(pytest.fail.Exception, match="training begins"):
        Learner(tmp_path / "m.upcl").learn(tmp_path / "photos")
    assert [reason in record.getMessage() for record in caplog.records] == [True]
    with pytest.raises(pytest.fail.Exception, match="training begins"):
        Learner(tmp_path / "m.upcl").learn(tmp_path / "photos", backbone="small")
    assert len(caplog.records) == 1
