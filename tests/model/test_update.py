from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from tests.model.photos import QUICK, mix_folders
from tests.nets.test_pretrained import torchvision_weights
from upcl import UserError, load_dataset
from upcl.methods.registry import METHODS
from upcl.model.bundle import Bundle
from upcl.model.file import load
from upcl.model.intake import NewImages
from upcl.model.learner import Learner
from upcl.model.options import LearnOptions
from upcl.model.update import MAX_HELD_OUT, check_forgetting, is_work_folder
from upcl.nets.pretrained import read_weights
from upcl.training.engine import EpochResult


def files_below(folder: Path) -> dict[str, bytes]:
    """Content of all files but locks."""
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock"}


# the guard against forgetting


def test_the_mean_drop_decides() -> None:
    before: dict[str, float | None] = {"cat": 90.0, "dog": 80.0, "owl": None}
    after: dict[str, float | None] = {"cat": 50.0, "dog": 80.0, "owl": 0.0, "new": 0.0}
    check_forgetting(before, after, 20.0)
    check_forgetting(before, after, None)
    with pytest.raises(UserError, match=r"lose 20 percentage points on average \(most: cat 40, dog 0\), more than"):
        check_forgetting(before, after, 19.9)


def test_an_improvement_is_always_accepted() -> None:
    check_forgetting({"cat": 50.0, "dog": 70.0}, {"cat": 90.0, "dog": 60.0}, 0.0)


def test_classes_without_held_out_images_do_not_count() -> None:
    check_forgetting({"cat": None, "dog": 50.0, "gone": 100.0}, {"cat": 0.0, "dog": None}, 0.0)


def test_the_worst_five_classes_are_named() -> None:
    before: dict[str, float | None] = {f"class {k}": 100.0 for k in range(7)}
    after: dict[str, float | None] = {f"class {k}": 10.0 * k for k in range(7)}
    with pytest.raises(UserError, match=r"\(most: class 0 100, class 1 90, class 2 80, class 3 70, class 4 60\)"):
        check_forgetting(before, after, 20)


def drop_of_known_classes(bundle: Bundle) -> float:
    before, after = bundle.history[-2:]
    was, now = before.mean_accuracy(before.by_class), after.mean_accuracy(before.by_class)
    assert was is not None and now is not None
    return was - now


def test_a_real_drop_is_refused_above_and_accepted_below_the_limit(photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.upcl"
    finetune = dataclasses.replace(QUICK, method="finetune")
    Learner(path).learn(photos / "first", finetune)
    shutil.copy(path, tmp_path / "any.upcl")
    drop = drop_of_known_classes(Learner(tmp_path / "any.upcl").learn(photos / "second", finetune).require_bundle())
    assert drop > 20, "fine-tuning forgets"
    before = path.read_bytes()
    for limit in (0.0, drop - 0.5):
        with pytest.raises(UserError, match=r"known classes would lose .* points on average \(most: kind"):
            Learner(path).learn(photos / "second", finetune, max_forgetting=limit)
        assert path.read_bytes() == before and len(Learner(path).classes) == 3
    epochs: list[int] = []
    accepted = Learner(path).learn(
        photos / "second", finetune, lambda result: epochs.append(result.epoch), max_forgetting=drop + 0.5
    )
    assert len(accepted.classes) == 6 and epochs == [], "what was trained is accepted without training again"
    assert drop_of_known_classes(accepted.require_bundle()) == pytest.approx(drop)
    assert not (tmp_path / "m.upcl.work").exists()


def digits(*labels: int) -> NewImages:
    data = load_dataset("digits:train=40,test=20").train
    chosen = [(data.inputs[data.labels == label], str(label)) for label in labels]
    train, held_out = (torch.cat([images[part] for images, _ in chosen]) for part in (slice(0, 25), slice(25, 40)))
    names = [[name for _, name in chosen for _ in range(num)] for num in (25, 15)]
    return NewImages(train, names[0], held_out, names[1])


def test_a_real_improvement_is_accepted_with_the_strictest_limit(tmp_path: Path) -> None:
    strict = dataclasses.replace(QUICK, method="joint", epochs=12, max_forgetting=0.0)
    untrained = dataclasses.replace(strict, epochs=1, options={"recipe.lr": 1e-9})
    learner = Learner(tmp_path / "m.upcl").learn_images(digits(1, 3, 8, 9), untrained)
    learner.learn_images(digits(5, 7), strict)
    assert drop_of_known_classes(learner.require_bundle()) < -5 and len(learner.classes) == 6


# interrupted updates


class InterruptedUpdateError(Exception):
    pass


def test_an_interrupted_update_resumes_in_the_middle_and_gives_the_same_weights(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upcl.model.update.SAVE_SECONDS", 0)
    options = dataclasses.replace(QUICK, epochs=6)
    first = Learner(tmp_path / "one.upcl").learn(photos / "first", options).path
    stopped = Path(shutil.copy(first, tmp_path / "two.upcl"))
    uninterrupted = Learner(first).learn(photos / "second", options).require_bundle().state
    before, epochs = stopped.read_bytes(), list[int]()

    def stop_after_3(result: EpochResult) -> None:
        epochs.append(result.epoch)
        if result.epoch == 3:
            raise InterruptedUpdateError

    with pytest.raises(InterruptedUpdateError):
        Learner(stopped).learn(photos / "second", options, stop_after_3)
    assert stopped.read_bytes() == before and epochs == [0, 1, 2, 3]
    assert (tmp_path / "two.upcl.work" / "config.json").is_file()
    resumed = Learner(stopped).learn(photos / "second", options, lambda result: epochs.append(result.epoch))
    assert epochs == [0, 1, 2, 3, 4, 5], "the finished epochs are not trained again"
    weights = resumed.require_bundle().state.weights
    assert all(torch.equal(weights[name], value) for name, value in uninterrupted.weights.items())
    assert not (tmp_path / "two.upcl.work").exists()


def test_a_folder_of_the_user_is_never_removed(photos: Path, tmp_path: Path) -> None:
    mine = tmp_path / "m.upcl.work"
    mine.mkdir()
    (mine / "diary.txt").write_text("mine")
    (mine / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"m\.upcl\.work is in the way"):
        Learner(tmp_path / "m.upcl").learn(photos / "first", QUICK)
    assert (mine / "diary.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "files",
    [
        {"config.json": '{"model_type": "bert"}', "checkpoints/best.pt": "mine"},
        {"config.json": "[" * 10_000},
        {"thesis.partial/chapter1.txt": "mine"},
        {".0123456789ab.0123456789ab.partial/chapter1.txt": "mine"},
        {".lease/contract.txt": "mine"},
    ],
)
def test_only_a_folder_with_our_mark_is_removed(files: dict[str, str], photos: Path, tmp_path: Path) -> None:
    for name, content in files.items():
        path = tmp_path / "m.upcl.work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert not is_work_folder(tmp_path / "m.upcl.work")
    with pytest.raises(UserError, match=r"m\.upcl\.work is in the way"):
        Learner(tmp_path / "m.upcl").learn(photos / "first", QUICK)
    assert all((tmp_path / "m.upcl.work" / name).read_text() == content for name, content in files.items())


def test_an_update_that_had_only_begun_is_not_in_the_way(photos: Path, tmp_path: Path) -> None:
    """Killed before its config was written: the folder is empty, or holds what was being written."""
    work = tmp_path / "m.upcl.work"
    work.mkdir()
    (work / ".0123456789ab.0123456789ab.partial").write_text("half")
    assert is_work_folder(work)
    Learner(tmp_path / "m.upcl").learn(photos / "first", QUICK)
    assert not work.exists()


def test_other_options_start_the_interrupted_update_again(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upcl.model.update.SAVE_SECONDS", 0)

    def stop(_result: EpochResult) -> None:
        raise InterruptedUpdateError

    path, epochs = tmp_path / "m.upcl", list[int]()
    with pytest.raises(InterruptedUpdateError):
        Learner(path).learn(photos / "first", QUICK, stop)
    assert not path.exists()
    Learner(path).learn(photos / "first", QUICK, lambda result: epochs.append(result.epoch), epochs=2)
    assert epochs == [0, 1]


# more images of known classes

WITHOUT_MEMORY = [name for name, method in METHODS.items() if not method.accepts_extra()]


def test_these_methods_keep_no_exemplars() -> None:
    assert {"finetune", "lwf", "fetril"} <= set(WITHOUT_MEMORY)


@pytest.mark.parametrize("mixed", [False, True], ids=["extra only", "with a new class"])
@pytest.mark.parametrize("method", WITHOUT_MEMORY)
def test_methods_without_exemplars_refuse_extra_images_before_anything_is_written(
    method: str, mixed: bool, photos: Path, tmp_path: Path
) -> None:
    path = tmp_path / "model" / "m.upcl"
    options = dataclasses.replace(QUICK, method=method, epochs=1)
    learner = Learner(path).learn(photos / "first", options)
    folder = mix_folders(tmp_path / "offered", photos / "extra", *([photos / "second"] if mixed else []))
    before, epochs = files_below(path.parent), list[int]()
    with pytest.raises(UserError, match=r"keeps no exemplars, so it cannot learn .* known classes \(kind 1\)"):
        learner.learn(folder, options, lambda result: epochs.append(result.epoch))
    assert files_below(path.parent) == before and epochs == []
    state = learner.learn(photos / "second", options).require_bundle().state
    assert len(state.exemplars) == 0, "no image of any class is stored"
    assert len(state.class_names) == 6


@pytest.mark.parametrize("method", ["upcl", "icarl", "bic"])
def test_extra_images_and_a_new_class_are_learned_together(method: str, photos: Path, tmp_path: Path) -> None:
    options = dataclasses.replace(QUICK, method=method, epochs=1)
    learner = Learner(tmp_path / "m.upcl").learn(photos / "first", options)
    before = learner.require_bundle().state
    folder = mix_folders(tmp_path / "offered", photos / "extra", photos / "second")
    bundle = learner.learn(folder, options).require_bundle()
    entry = bundle.history[-1]
    assert entry.added == ("kind 3", "kind 4", "kind 5") and entry.extra == {"kind 1": 8}
    assert entry.images == 3 * 16 + 8
    assert bundle.state.exemplars.counts(6).tolist() == [4] * 6
    assert bundle.state.held_out.counts(6).tolist() == [4, 5, 4, 4, 4, 4]
    assert any(
        not torch.equal(before.weights[name], value)
        for name, value in bundle.state.weights.items()
        if name in before.weights and value.shape == before.weights[name].shape
    )


def test_extra_images_alone_reselect_exemplars_and_keep_the_weights(photos: Path, own_copy: Path) -> None:
    before = load(own_copy).state
    bundle = Learner(own_copy).learn(photos / "extra", QUICK).require_bundle()
    entry = bundle.history[-1]
    assert entry.extra == {"kind 1": 8} and entry.added == () and entry.images == 8
    assert "weights are unchanged" in entry.note
    assert all(torch.equal(before.weights[name], value) for name, value in bundle.state.weights.items())
    others = before.exemplars.labels != 1
    kept = bundle.state.exemplars
    assert torch.equal(kept.inputs[kept.labels != 1], before.exemplars.inputs[others]), "other classes keep theirs"
    assert kept.counts(6).tolist() == [4] * 6


# pretrained backbones


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> LearnOptions:
    path = tmp_path_factory.mktemp("weights") / "w.safetensors"
    safetensors.torch.save_file(torchvision_weights("resnet18-7x7"), path)
    return LearnOptions(epochs=1, backbone=str(path), size=16, memory="2/class", max_forgetting=None)


@pytest.mark.parametrize("frozen", [True, False])
def test_a_pretrained_backbone_is_loaded_and_kept_if_frozen(
    frozen: bool, pretrained: LearnOptions, photos: Path, tmp_path: Path
) -> None:
    learner = Learner(tmp_path / "m.upcl").learn(photos / "first", pretrained, method="icarl", frozen=frozen)
    spec, weights = learner.require_bundle().spec, learner.require_bundle().state.weights
    given = read_weights(Path(str(pretrained.backbone)))["conv1.weight"]
    assert (spec.backbone, spec.pretrained, spec.frozen) == ("resnet18-7x7", pretrained.backbone, frozen)
    assert spec.mean == pytest.approx((0.485, 0.456, 0.406))
    assert torch.equal(weights["backbone.stem.0.0.weight"], given) is frozen
    assert torch.allclose(weights["backbone.stem.0.0.weight"], given, atol=0.1), "it starts from these weights"


def test_a_frozen_backbone_needs_something_to_train_after_it(
    pretrained: LearnOptions, photos: Path, tmp_path: Path
) -> None:
    learner = Learner(tmp_path / "upcl.upcl").learn(photos / "first", pretrained, method="upcl", frozen=True)
    assert learner.require_bundle().spec.options["projector"] == 256
    bare = dataclasses.replace(pretrained, method="upcl", options={"projector": 0})
    with pytest.raises(UserError, match="it trains only the backbone and a projector"):
        Learner(tmp_path / "m.upcl").learn(photos / "first", bare, frozen=True)


# what is stored


def test_at_most_20_images_per_class_are_held_out_and_the_oldest_stay(tmp_path: Path) -> None:
    def images(start: int, num: int) -> torch.Tensor:
        return torch.arange(start, start + num, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 8, 8).contiguous()

    def offer(start: int) -> NewImages:
        return NewImages(images(start, 4), ["cat", "dog"] * 2, images(start + 4, 15), ["cat"] * 15)

    learner = Learner(tmp_path / "m.upcl")
    for start in (0, 100):
        learner.learn_images(offer(start), QUICK)
    held_out = learner.require_bundle().state.held_out
    assert len(held_out) == MAX_HELD_OUT == 20
    assert held_out.inputs[:, 0, 0, 0].tolist() == [*range(4, 19), *range(104, 109)]


def test_memory_can_change_and_small_budgets_hold(photos: Path, own_copy: Path) -> None:
    bundle = Learner(own_copy).learn(photos / "extra", QUICK, memory="2/class").require_bundle()
    assert bundle.spec.memory == "2/class"
    assert bundle.state.exemplars.counts(6).tolist() == [2] * 6


def test_nothing_global_is_left_changed(photos: Path, tmp_path: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    Learner(tmp_path / "m.upcl").learn(photos / "first", QUICK, epochs=1)
    assert torch.equal(torch.rand(3), expected)


def learn_pair(tmp_path: Path, photos: Path, name: str, **options: Any) -> Bundle:
    learner = Learner(tmp_path / name).learn(photos / "first", QUICK, epochs=1, **options)
    return learner.learn(photos / "second", QUICK, epochs=1, **options).require_bundle()


def test_the_same_calls_give_the_same_weights(photos: Path, tmp_path: Path) -> None:
    one, other = (learn_pair(tmp_path, photos, name).state for name in ("a.upcl", "b.upcl"))
    assert all(torch.equal(one.weights[name], value) for name, value in other.weights.items())
    assert one.calibration == other.calibration
