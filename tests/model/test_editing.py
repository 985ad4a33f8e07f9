"""Corrections of a model without its photos."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.feature_models import CPU, assert_same_model, digest, feature, grow, spec
from upcl.core.errors import UserError
from upcl.model.bundle import Bundle
from upcl.model.editing import merge_classes, move_photo, remove_photo, rename_class
from upcl.model.file import load, save
from upcl.model.forgetting import forget_class
from upcl.model.spec import make_method, restore_state

LOT = {"ant": range(8), "bull": range(8), "cat": range(8)}
TESTED = {"ant": range(100, 103), "bull": range(100, 103), "cat": range(100, 103)}


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return grow(grow(None, {"ant": range(4)}), LOT, TESTED)


def test_a_renamed_class_is_the_same_class(bundle: Bundle) -> None:
    renamed = rename_class(bundle, "bull", "wasp")
    assert renamed.state.class_names == ["ant", "wasp", "cat"] and "wasp" in renamed.history[-1].added
    assert "bull" not in str((renamed.history, [state.trained for state in renamed.states.values()]))
    assert_same_model(rename_class(renamed, "wasp", "bull"), bundle)


def test_merging_equals_learning_both_as_one_class(bundle: Bundle) -> None:
    for name, into in (("bull", "cat"), ("cat", "bull")):
        merged = merge_classes(bundle, name, into, CPU)
        assert merged.state.class_names == ["ant", into]
        assert (merged.state.exemplars.labels == merged.state.classes.index(into)).sum() == 16
        assert merged.state.tested[into] == tuple(sorted(merged.state.tested[into]))
        both = {digest(other, photo) for other in ("bull", "cat") for photo in range(8)}
        assert set(merged.state.trained[into]) == both
        again, _ = remove_photo(merged, digest(name, 2), CPU)  # rows and digests still belong together
        rows = {row.numpy().tobytes() for row in again.state.exemplars.inputs}
        assert feature(name, 2).numpy().tobytes() not in rows and feature(into, 2).numpy().tobytes() in rows


def test_moving_a_photo_there_and_back_changes_nothing(bundle: Bundle) -> None:
    for photo in (3, 101):  # learned from, and held out
        moved, before = move_photo(bundle, digest("bull", photo), "cat", CPU)
        assert before == "bull"
        digests = moved.state.trained if photo < 100 else moved.state.tested
        assert digest("bull", photo) in digests["cat"] and digest("bull", photo) not in digests["bull"]
        back, before = move_photo(moved, digest("bull", photo), "bull", CPU)
        assert before == "cat"
        assert_same_model(back, bundle)


def test_removing_a_photo_equals_never_having_seen_it(bundle: Bundle) -> None:
    removed, name = remove_photo(bundle, digest("cat", 5), CPU)
    assert name == "cat" and len(removed.states) == 1
    without = {**LOT, "cat": [photo for photo in range(8) if photo != 5]}
    assert_same_model(removed, grow(None, without, TESTED))


def test_what_is_removed_is_not_in_the_file(bundle: Bundle, tmp_path: Path) -> None:
    removed, _ = remove_photo(bundle, digest("cat", 5), CPU)
    save(removed, tmp_path / "m.upcl")
    assert digest("cat", 5).encode() not in (tmp_path / "m.upcl").read_bytes()
    assert len(load(tmp_path / "m.upcl").state.exemplars) == 23


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: rename_class(b, "bul", "wasp"), "did you mean bull"),
        (lambda b: rename_class(b, "bull", "cat"), "upcl merge"),
        (lambda b: rename_class(b, "bull", " "), "empty"),
        (lambda b: merge_classes(b, "bull", "bull", CPU), "itself"),
        (lambda b: move_photo(b, digest("bull", 1), "bull", CPU), "already"),
        (lambda b: move_photo(b, "0" * 16, "bull", CPU), "not learned this photo"),
    ],
)
def test_mistakes_are_explained(change: object, message: str, bundle: Bundle) -> None:
    with pytest.raises(UserError, match=message):
        change(bundle)  # type: ignore[operator]


def test_the_only_photo_of_a_class_is_removed_with_its_class() -> None:
    with pytest.raises(UserError, match="upcl forget --class 'ant'"):
        remove_photo(grow(None, {"ant": [1], "bull": [1, 2]}), digest("ant", 1), CPU)


def test_trained_models_refuse_what_only_closed_form_can_do() -> None:
    trained = grow(None, {"ant": range(4), "bull": range(4)}, None, spec("ncm", features=False))
    with pytest.raises(UserError, match="closed form"):
        merge_classes(trained, "ant", "bull", CPU)


def test_the_name_of_a_merged_class_is_forgotten_with_the_class_that_it_became(bundle: Bundle) -> None:
    merged = merge_classes(bundle, "bull", "cat", CPU)
    assert "bull" in str(merged.history)
    method = make_method(merged.spec, len(merged.state.classes), CPU)
    restore_state(method, merged.state)
    forgotten = forget_class(merged, "cat", method)
    assert not any(name in str(forgotten.history) for name in ("bull", "cat")) and "ant" in str(forgotten.history)
