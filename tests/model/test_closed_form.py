"""Growth in closed form: order and splits do not matter, and what is forgotten leaves no trace."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tests.model.feature_models import CPU, NAMES, Lot, assert_same_model, digest, feature, grow, spec
from upcl.core.errors import UserError
from upcl.model import closed_form, stored_sums
from upcl.model.bundle import Bundle
from upcl.model.closed_form import is_closed_form
from upcl.model.editing import merge_classes, move_photo, remove_photo
from upcl.model.file import load, save
from upcl.model.forgetting import forget_class
from upcl.model.predictor import Predictor
from upcl.model.spec import make_method, restore_state
from upcl.model.stored_sums import GRAM

ALL: Lot = {name: range(12) for name in NAMES}
TESTED: Lot = {name: range(100, 104) for name in NAMES}
KINDS = {"automatic": spec("ncm", automatic=True), **{name: spec(name) for name in ("ncm", "slda", "ridge", "ranpac")}}


def at_once(kind: str) -> Bundle:
    return grow(None, ALL, TESTED, KINDS[kind])


def predictor(bundle: Bundle) -> Predictor:
    method = make_method(bundle.spec, len(bundle.state.classes), CPU)
    restore_state(method, bundle.state)
    return Predictor(method, bundle.spec, bundle.state)


@pytest.mark.parametrize("kind", KINDS)
def test_twenty_orders_and_splits_give_the_same_model(kind: str) -> None:
    expected, photos = at_once(kind), [(name, photo) for name in NAMES for photo in ALL[name]]
    queries = torch.stack([feature(name, 200) for name in NAMES])
    answers = predictor(expected).predict(queries).top(1)
    assert [prediction.names[0] for prediction in answers] == list(NAMES)
    for seed in range(20 if kind == "ridge" else 3):
        shuffled = random.Random(seed).sample(photos, len(photos))
        cuts = sorted(random.Random(seed).sample(range(1, len(photos)), 2))
        bundle = None
        for start, end in zip([0, *cuts], [*cuts, len(photos)], strict=True):
            lot: dict[str, list[int]] = {}
            for name, photo in shuffled[start:end]:
                lot.setdefault(name, []).append(photo)
            bundle = grow(bundle, lot, TESTED if end == len(photos) else None, KINDS[kind])
        assert bundle is not None
        assert_same_model(bundle, expected)
        for found, answer in zip(predictor(bundle).predict(queries).top(1), answers, strict=True):
            assert (found.names, found.known) == (answer.names, answer.known)
            assert found.familiarity == pytest.approx(answer.familiarity, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_forgetting_a_class_equals_never_having_learned_it(kind: str) -> None:
    bundle = at_once(kind)
    method = make_method(bundle.spec, len(NAMES), CPU)
    restore_state(method, bundle.state)
    forgotten = forget_class(bundle, "cat", method)
    rest = {name: ALL[name] for name in NAMES if name != "cat"}
    assert_same_model(forgotten, grow(None, rest, {name: TESTED[name] for name in rest}, KINDS[kind]))
    label = NAMES.index("cat")
    state = forgotten.state
    for samples in (state.exemplars, state.held_out):
        assert not (samples.labels == label).any()
    assert "cat" not in str((forgotten.history, state.trained, state.tested))


def test_a_model_in_a_file_is_the_same_and_stores_shared_weights_once(tmp_path: Path) -> None:
    bundle = grow(grow(None, {"ant": range(9), "bull": range(9)}), {"cat": range(9)}, {"ant": [50]})
    save(bundle, tmp_path / "m.upcl")
    loaded = load(tmp_path / "m.upcl")
    assert_same_model(loaded, bundle)
    assert loaded.spec == bundle.spec and loaded.history == bundle.history
    assert loaded.state.exemplars.inputs.dtype == torch.float16
    assert torch.equal(loaded.state.exemplars.inputs, bundle.state.exemplars.inputs)
    assert loaded.state.trained == bundle.state.trained and loaded.state.tested == bundle.state.tested
    alone = tmp_path / "one.upcl"
    save(loaded.rolled_back(0), alone)
    assert (tmp_path / "m.upcl").stat().st_size < 1.2 * alone.stat().st_size


def test_the_choice_is_the_best_in_cross_validation_and_is_reported() -> None:
    bundle = at_once("automatic")
    note = bundle.history[-1].note
    assert bundle.spec.method in ("ncm", "slda", "ridge", "ranpac") and is_closed_form(bundle.spec)
    assert note.startswith("classifier: ") and note.count("%") == 4


def test_a_single_photo_of_a_single_class_is_no_error() -> None:
    for made_with in KINDS.values():
        bundle = grow(None, {"ant": [0]}, None, made_with)
        assert predictor(bundle).predict(feature("ant", 0)[None]).top(1)[0].names == ("ant",)


def test_the_gram_matrix_of_many_photos_is_stored_and_changed_by_what_comes_and_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stored_sums, "MANY", 0.1)  # 13 photos are many
    lots = [{"ant": range(10), "bull": range(10)}, {"cat": range(8), "ant": range(10, 13)}]
    bundle = grow(grow(None, lots[0]), lots[1])
    assert GRAM in bundle.state.weights and GRAM not in bundle.states[0].weights
    changes = {
        "learned": bundle,
        "merged": merge_classes(bundle, "cat", "bull", CPU),
        "moved": move_photo(bundle, digest("ant", 3), "cat", CPU)[0],
        "removed": remove_photo(bundle, digest("ant", 3), CPU)[0],
        "forgotten": forget_class(bundle, "cat", make_method(bundle.spec, 3, CPU)),
    }
    for name, changed in changes.items():
        exact = F.normalize(changed.state.exemplars.inputs.float()).double()
        assert torch.allclose(changed.state.weights[GRAM], exact.T @ exact, atol=1e-9), name
    everything = grow(None, {"ant": range(13), "bull": range(10), "cat": range(8)})
    assert_same_model(bundle, everything)


@pytest.mark.parametrize("method", ["ncm", "slda", "ridge"])
def test_sums_alone_keep_the_regularisation_of_the_first_step(method: str) -> None:
    lots = [{"ant": range(9), "bull": range(9)}, {"cat": range(9), "ant": range(9, 12)}]
    first = grow(None, lots[0], None, spec(method, keep="none"))
    second = grow(first, lots[1])
    assert second.state.strength == first.state.strength is not None
    options = {"slda": {"shrinkage": first.state.strength}, "ridge": {"penalty": first.state.strength}}
    fixed = dataclasses.replace(spec(method), options=options.get(method, {}))
    assert_same_model(second, grow(grow(None, lots[0], None, fixed), lots[1]))


def test_an_earlier_step_is_read_and_restored_with_its_own_method(tmp_path: Path) -> None:
    bundle = grow(None, {"ant": range(9), "bull": range(9)}, None, spec("ranpac"))
    pinned = dataclasses.replace(bundle, spec=spec("ridge"))
    save(grow(pinned, {"cat": range(9)}), tmp_path / "m.upcl")
    loaded = load(tmp_path / "m.upcl")
    assert loaded.spec.method == "ridge" and len(loaded.states) == 2
    back = loaded.rolled_back(0)
    assert back.spec.method == "ranpac"
    query = feature("bull", 200)[None]
    assert predictor(back).predict(query).top(1)[0].names == ("bull",)


def test_figures_of_classes_with_one_photo_each_are_left_out() -> None:
    assert grow(None, {"ant": [0], "bull": [0]}, None, KINDS["automatic"]).history[-1].note == ""
    assert "NCM" in grow(None, {"ant": [0, 1], "bull": [0]}, None, KINDS["automatic"]).history[-1].note


@pytest.mark.parametrize("method", ["ncm", "slda", "ridge"])
def test_sums_alone_grow_into_the_same_model_as_features(method: str, tmp_path: Path) -> None:
    options = {"slda": {"shrinkage": 0.1}, "ridge": {"penalty": 0.1}}.get(method, {})
    made = [dataclasses.replace(spec(method, keep=keep), options=options) for keep in ("features", "none")]
    lots = [{"ant": range(9), "bull": range(9)}, {"cat": range(9), "ant": range(9, 12)}]
    tested = {name: range(50, 54) for name in ("ant", "bull", "cat")}
    kept, summed = (grow(grow(None, lots[0], None, one), lots[1], tested, one) for one in made)
    assert_same_model(summed, kept)
    assert not len(summed.state.exemplars) and len(summed.state.held_out) == 12
    save(summed, tmp_path / "m.upcl")
    loaded = load(tmp_path / "m.upcl")
    assert loaded.spec.keep == "none" and torch.equal(loaded.state.weights[GRAM], summed.state.weights[GRAM])
    queries = torch.stack([feature(name, 200) for name in ("ant", "bull", "cat")])
    found, expected = (predictor(bundle).predict(queries) for bundle in (loaded, kept))
    assert torch.allclose(found.confidence, expected.confidence, atol=1e-5)
    assert torch.allclose(found.familiarity, expected.familiarity, atol=1e-3)
    again = grow(loaded.rolled_back(0), lots[1], tested)
    assert_same_model(again, kept)


def test_an_automatic_model_without_features_keeps_the_method_of_its_first_step() -> None:
    first = grow(None, {"ant": range(9), "bull": range(9)}, None, spec("ncm", automatic=True, keep="none"))
    second = grow(first, {"cat": range(9)})
    assert "RanPAC" not in first.history[0].note and "the best in cross-validation" in first.history[0].note
    assert second.spec.method == first.spec.method and not second.history[1].note


def test_sums_without_held_out_photos_predict_and_grow(tmp_path: Path) -> None:
    save(grow(None, {"ant": range(9), "bull": range(9)}, None, spec("ridge", keep="none")), tmp_path / "m.upcl")
    loaded = load(tmp_path / "m.upcl")
    query = feature("bull", 200)[None]
    assert predictor(loaded).predict(query).confidence.argmax(1).tolist() == [1]
    assert grow(loaded, {"cat": range(9)}).state.class_names == ["ant", "bull", "cat"]


def test_nothing_can_be_taken_out_of_sums() -> None:
    bundle = grow(None, {"ant": range(9), "bull": range(9)}, None, spec("ridge", keep="none"))
    for change in (
        lambda: forget_class(bundle, "ant", make_method(bundle.spec, 2, CPU)),
        lambda: merge_classes(bundle, "ant", "bull", CPU),
        lambda: remove_photo(bundle, digest("ant", 0), CPU),
    ):
        with pytest.raises(UserError, match=r"keeps no features \(--keep none\)"):
            change()


def test_copies_of_a_photo_are_learned_once() -> None:
    lot = {"ant": [0, 1, 1, 2, 1], "bull": range(3)}
    bundle = grow(None, lot, {"ant": [7, 7]})
    assert_same_model(bundle, grow(None, {"ant": range(3), "bull": range(3)}, {"ant": [7]}))
    assert len(bundle.state.exemplars) == 6 and len(bundle.state.held_out) == 1
    removed, name = remove_photo(bundle, digest("ant", 1), CPU)
    assert name == "ant" and len(removed.state.exemplars) == 5


def test_many_photos_of_each_class_suggest_finetuning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_form, "FINETUNE_PAYS", 9)
    few = grow(None, {"ant": range(8), "bull": range(9)}, None, spec("ncm", automatic=True))
    assert "--finetune" not in few.history[-1].note
    many = grow(few, {"ant": range(8, 10)})
    assert "a new model with --finetune is likely to be better" in many.history[-1].note
    chosen = grow(None, {"ant": range(10), "bull": range(10)}, None, spec("ridge"))
    assert chosen.history[-1].note == ""
