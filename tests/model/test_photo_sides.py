"""Which photos are held out is a function of the set of photos: order and splits do not matter, from folders on."""

from __future__ import annotations

import hashlib
import random
import shutil
from pathlib import Path

import pytest
import torch

from tests.model.feature_models import CPU, assert_same_model, digest, feature, grow, learn_features, spec
from upcl.core.types import Samples
from upcl.model import learner as learner_module
from upcl.model.bundle import Bundle, ModelSpec
from upcl.model.editing import merge_classes, move_photo, remove_photo
from upcl.model.file import load, save
from upcl.model.learner import Learner
from upcl.model.options import LearnOptions
from upcl.model.photo_changes import PhotoChange, change_photos
from upcl.model.photo_sides import PhotoSides, decide_sides, known_photos

KINDS = {"automatic": None, "ncm": "ncm", "slda": "slda", "ridge": "ridge", "ranpac": "ranpac"}


@pytest.fixture(autouse=True)
def small_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """New models work on features of a small network, as if it were the pretrained one that is installed."""

    def small_spec(options: LearnOptions, existing: ModelSpec | None, _path: Path) -> ModelSpec:
        return existing or spec(
            options.method or "ncm", automatic=options.method is None, keep=options.keep or "features"
        )

    monkeypatch.setattr(learner_module, "works_on_features", lambda *_: True)
    monkeypatch.setattr(learner_module, "feature_spec", small_spec)


@pytest.fixture(scope="module")
def files(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """From 3 to 20 photos of six classes, with names that tell nothing about them."""
    root, found = tmp_path_factory.mktemp("all"), []
    for label, num in enumerate((3, 5, 6, 8, 12, 20)):
        source = photos / ("first" if label < 3 else "second") / f"kind {label}"
        (root / f"kind {label}").mkdir()
        copies = [(source / f"{k}.png", root / f"kind {label}" / f"{label} {k}.png") for k in range(num)]
        found += [Path(shutil.copy(*pair)) for pair in copies]
    return found


def learn(path: Path, lots: list[list[Path]], method: str | None) -> Bundle:
    """Learn folders of some of the files, one after the other, with default options otherwise."""
    learner = Learner(path, device="cpu")
    options = LearnOptions(method=method, max_forgetting=None)
    for number, lot in enumerate(lots):
        folder = path.with_suffix("") / str(number)
        for file in lot:
            (folder / file.parent.name).mkdir(parents=True, exist_ok=True)
            (folder / file.parent.name / file.name).hardlink_to(file)
        learner.learn(folder, options)
    return learner.require_bundle()


def held_out(bundle: Bundle) -> dict[str, tuple[str, ...]]:
    return {name: found for name, found in bundle.state.tested.items() if found}


@pytest.mark.parametrize("kind", KINDS)
def test_folders_in_twenty_orders_and_splits_give_the_same_model(kind: str, files: list[Path], tmp_path: Path) -> None:
    expected = learn(tmp_path / "expected.upcl", [files], KINDS[kind])
    names = Learner(tmp_path / "expected.upcl", device="cpu").predict(files)
    assert expected.state.held_out.counts(6).tolist()[1:] > [0] * 5
    for seed in range(20 if kind == "automatic" else 5):
        shuffled = random.Random(seed).sample(files, len(files))
        cuts = sorted(random.Random(seed).sample(range(1, len(files)), 1 + seed % 3))
        lots = [shuffled[start:end] for start, end in zip([0, *cuts], [*cuts, len(files)], strict=True)]
        found = learn(tmp_path / f"{seed}.upcl", lots, KINDS[kind])
        assert held_out(found) == held_out(expected)
        assert_same_model(found, expected)
        assert (Learner(tmp_path / f"{seed}.upcl", device="cpu").predict(files) == names).all()


def test_forgetting_a_class_equals_folders_without_it(files: list[Path], tmp_path: Path) -> None:
    lots = [
        [file for file in files if file.parent.name in kinds]
        for kinds in (("kind 1", "kind 4"), ("kind 5",), ("kind 2", "kind 3"))
    ]
    learn(tmp_path / "all.upcl", [lots[0], lots[1], lots[2]], None)
    found = Learner(tmp_path / "all.upcl", device="cpu").forget("kind 5")
    expected = learn(tmp_path / "without.upcl", [lots[2], lots[0]], None)
    assert held_out(found.require_bundle()) == held_out(expected)
    assert_same_model(found.require_bundle(), expected)


def test_photos_that_stay_where_they_were_given_are_stored_and_forgotten(tmp_path: Path) -> None:
    bundle = grow(grow(None, {"ant": range(9), "bull": range(9)}, {"ant": [50]}), {"cat": range(3)})
    assert bundle.state.assigned == known_photos(bundle.state) and len(bundle.state.assigned) == 22
    save(bundle, tmp_path / "m.upcl")
    assert load(tmp_path / "m.upcl").state.assigned == bundle.state.assigned
    removed, _ = remove_photo(bundle, digest("ant", 50), CPU)
    assert digest("ant", 50) not in removed.state.assigned and len(removed.state.assigned) == 21


def test_corrections_divide_photos_again_like_learning_them_so() -> None:
    rows = [(feature(name, k), name, digest(name, k)) for name in ("ant", "bull", "cat") for k in range(9)]
    bundle = learn_features(None, rows, [], spec(), undecided=True)
    assert 0 < len(bundle.state.held_out) < 14 and not bundle.state.assigned
    for photo in range(9):
        moved, _ = move_photo(bundle, digest("ant", photo), "bull", CPU)
        renamed = [(row, "bull" if d == digest("ant", photo) else name, d) for row, name, d in rows]
        assert held_out(moved) == held_out(learn_features(None, renamed, [], spec(), undecided=True))
        removed, _ = remove_photo(bundle, digest("ant", photo), CPU)
        without = [row for row in rows if row[2] != digest("ant", photo)]
        expected = learn_features(None, without, [], spec(), undecided=True)
        assert held_out(removed) == held_out(expected)
        assert_same_model(removed, expected)
    merged = [(row, "cat" if name == "bull" else name, d) for row, name, d in rows]
    found = merge_classes(bundle, "bull", "cat", CPU)
    assert held_out(found) == held_out(learn_features(None, merged, [], spec(), undecided=True))


def test_photos_of_a_test_folder_stay_held_out_and_photos_taught_one_by_one_stay_learned() -> None:
    bundle = grow(None, {"ant": range(9), "bull": range(2)}, {"ant": range(50, 53)})
    taught = [PhotoChange(digest("bull", k), "bull", feature("bull", k)) for k in range(2, 12)]
    bundle = change_photos(bundle, taught, "", CPU).bundle
    rows = [(feature("ant", k), "ant", digest("ant", k)) for k in range(10, 30)]
    grown = learn_features(bundle, rows, [], spec(), undecided=True)
    assert {digest("ant", k) for k in range(50, 53)} < set(grown.state.tested["ant"])
    assert {digest("ant", k) for k in range(9)} < set(grown.state.trained["ant"])
    assert len(grown.state.tested["ant"]) > 3 and len(grown.state.trained["bull"]) == 12


def test_photos_change_sides_with_their_features() -> None:
    names = [hashlib.sha256(str(k).encode()).hexdigest()[:16] for k in range(8)]
    learned = Samples(torch.arange(8.0)[:, None], torch.zeros(8, dtype=torch.int64))
    sides = decide_sides(PhotoSides(learned, {"cat": tuple(names)}, learned[:0], {}), ("cat",), set())
    for samples, found in ((sides.learned, sides.trained), (sides.held_out, sides.tested)):
        assert [names[int(value)] for value in samples.inputs[:, 0]] == list(found["cat"])
    assert decide_sides(sides, ("cat",), set()).tested == sides.tested
    assert decide_sides(sides, ("cat",), set(names)).tested == sides.tested
