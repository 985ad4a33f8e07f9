from __future__ import annotations

import dataclasses
import zipfile
from pathlib import Path

import pytest
import torch

from tests.model.photos import QUICK, noise
from upcl import UserError
from upcl.core.files import atomic_path
from upcl.methods.registry import METHODS
from upcl.model.file import load
from upcl.model.learner import Learner
from upcl.nets import CosineHead
from upcl.nets.proxy_head import ProxyHead
from upcl.training.engine import EpochResult


def test_a_forgotten_class_is_gone_from_the_file(own_copy: Path) -> None:
    state = load(own_copy).state
    digests = set(state.trained["kind 1"])
    images = {image.numpy().tobytes() for image in state.exemplars.inputs[state.exemplars.labels == 1]}
    images |= {image.numpy().tobytes() for image in state.held_out.inputs[state.held_out.labels == 1]}
    Learner(own_copy).forget("kind 1")
    with zipfile.ZipFile(own_copy) as archive:
        manifest = archive.read("manifest.json").decode()
    assert "kind 1" not in manifest and not any(digest in manifest for digest in digests)
    after = load(own_copy)
    stored = (*after.state.exemplars.inputs, *after.state.held_out.inputs)
    assert not images & {image.numpy().tobytes() for image in stored}
    assert list(after.states) == [2], "earlier states would still have it"
    assert after.history[0].added == ("kind 0", "(removed)", "kind 2")
    assert "kind 1" not in after.history[-1].by_class and after.history[-1].note == "a class was removed"


def test_other_classes_keep_their_labels_and_the_forgotten_one_is_never_predicted(own_copy: Path) -> None:
    before = Learner(own_copy).predictor.predict(noise(8))
    learner = Learner(own_copy).forget("kind 1")
    assert learner.require_bundle().state.classes == ("kind 0", None, "kind 2", "kind 3", "kind 4", "kind 5")
    predictions = learner.predictor.predict(noise(8))
    assert all("kind 1" not in prediction.names and len(prediction.names) == 5 for prediction in predictions.top(6))
    others = [0, 2, 3, 4, 5]
    assert torch.equal(predictions.scores["nme"][:, others], before.scores["nme"][:, others])


def test_what_a_killed_save_left_is_gone_after_forgetting(own_copy: Path) -> None:
    with atomic_path(own_copy) as partial:
        partial.write_bytes(own_copy.read_bytes())
        Learner(own_copy).forget("kind 1")
        assert [path.name for path in own_copy.parent.iterdir() if path.name != f".{own_copy.name}.lock"] == [
            "copy.upcl"
        ]
        partial.write_bytes(own_copy.read_bytes())


def test_checkpoints_of_an_interrupted_update_are_gone_after_forgetting(own_copy: Path, photos: Path) -> None:
    def stop(_: EpochResult) -> None:
        raise KeyboardInterrupt

    learner, work = Learner(own_copy).rollback(0), own_copy.with_name("copy.upcl.work")
    with pytest.raises(KeyboardInterrupt):
        learner.learn(photos / "second", QUICK, stop)
    assert work.is_dir()
    learner.forget("kind 1")
    assert not work.exists(), "they have the exemplars of all classes"
    work.mkdir()
    (work / "diary.txt").write_text("mine")
    learner.forget("kind 0")
    assert (work / "diary.txt").exists(), "a folder of the user stays"


def test_unknown_and_last_classes_are_refused(own_copy: Path) -> None:
    learner = Learner(own_copy)
    with pytest.raises(UserError, match="did you mean kind"):
        learner.forget("kind 9")
    for label in range(5):
        learner.forget(f"kind {label}")
    with pytest.raises(UserError, match="is the only class: remove the file instead"):
        learner.forget("kind 5")


def test_a_model_that_forgot_a_class_keeps_learning(own_copy: Path, photos: Path) -> None:
    Learner(own_copy).rollback(0).forget("kind 1").learn(photos / "second", QUICK)
    assert Learner(own_copy).classes == ["kind 0", "kind 2", "kind 3", "kind 4", "kind 5"]


@pytest.mark.no_cover
@pytest.mark.parametrize("method", [name for name in METHODS if not METHODS[name]().needs_num_classes])
def test_every_method_grows_forgets_and_grows_again(method: str, photos: Path, tmp_path: Path) -> None:
    path, options = tmp_path / "m.upcl", dataclasses.replace(QUICK, method=method, epochs=1)
    Learner(path).learn(photos / "first", options).learn(photos / "second", options)
    learner = Learner(path)
    assert learner.classes == [f"kind {label}" for label in range(6)]
    learner.forget("kind 1").forget("kind 4")
    head = learner.predictor.method.net.head
    rows = {name: value for name, value in head.state_dict().items() if value.shape[:1] == (6,) and name != "frame"}
    if isinstance(head, CosineHead | ProxyHead):  # rows of old and new classes are tensors of their own
        rows = {"vectors": head.vectors}
    learned = [value for value in rows.values() if value.is_floating_point()]
    assert learned and all(len(value[label].unique()) == 1 for value in learned for label in (1, 4)), "no trace is left"
    learner.learn(photos / "second", options)
    assert learner.classes == ["kind 0", "kind 2", "kind 3", "kind 5", "kind 4"], "it returns with a new label"
    for value in learner.require_bundle().state.weights.values():
        assert value.isfinite().all() and (value.float().abs() < 1e4).all()
    learner.forget("kind 4")
    for prediction in Learner(path).predictor.predict(torch.zeros(2, 3, 8, 8, dtype=torch.uint8)).top(6):
        assert sorted(prediction.names) == ["kind 0", "kind 2", "kind 3", "kind 5"]
