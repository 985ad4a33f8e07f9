"""Corrections of a model without its photos."""

from __future__ import annotations

import dataclasses
import zipfile
from pathlib import Path

import pytest

from tests.model.feature_models import CPU, assert_same_model, digest, feature, grow, learn_features, spec
from upcl.core.errors import UserError
from upcl.methods.closed_form import ClosedForm
from upcl.model.bundle import Bundle, ModelSpec
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


def test_no_byte_of_the_file_has_the_names_of_a_forgotten_class(bundle: Bundle, tmp_path: Path) -> None:
    moved, _ = move_photo(bundle, digest("ant", 3), "bull", CPU)
    assert moved.history[-1].note == "moved a photo from 'ant' to 'bull'"
    renamed = rename_class(moved, "bull", "wasp")
    assert renamed.history[-1].note == "moved a photo from 'ant' to 'wasp'"
    method = make_method(renamed.spec, len(renamed.state.classes), CPU)
    restore_state(method, renamed.state)
    save(forget_class(renamed, "wasp", method), tmp_path / "m.upcl")
    with zipfile.ZipFile(tmp_path / "m.upcl") as archive:
        content = b"".join(archive.read(name) for name in archive.namelist())
    assert not any(name in content for name in (b"bull", b"wasp")) and b"ant" in content


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        ("moved a photo from 'a' to 'b'", "moved a photo from 'ox' to 'b'"),
        ("3 photos: 'a'", "3 photos: 'ox'"),
        ("a photo was moved from b to bull", "ox photo was moved from b to bull"),  # of an older version
    ],
)
def test_remarks_follow_a_rename(note: str, expected: str) -> None:
    bundle = grow(None, {"ant": [1], "bull": [2]})
    bundle = rename_class(bundle, "ant", "a").with_note(note)
    assert rename_class(bundle, "a", "ox").history[-1].note == expected


def test_the_last_learned_photo_is_replaced_by_a_held_out_one() -> None:
    removed, name = remove_photo(grow(None, {"ant": [1], "bull": [1, 2]}, {"ant": [7]}), digest("ant", 1), CPU)
    assert name == "ant" and removed.state.trained["ant"] == (digest("ant", 7),)


@pytest.mark.parametrize("method", ["ncm", "slda", "ridge", "ranpac"])
def test_edits_keep_the_regularisation_and_validate_nothing(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = grow(None, LOT, TESTED, spec(method))
    assert bundle.state.strength is not None
    monkeypatch.setattr(ClosedForm, "cross_validate", None)
    merged = merge_classes(bundle, "bull", "cat", CPU)
    moved, _ = move_photo(bundle, digest("bull", 1), "cat", CPU)
    assert merged.state.strength == moved.state.strength == bundle.state.strength
    monkeypatch.undo()
    for edited, names in ((merged, {"bull": "cat"}), (moved, {})):
        rows = [(name, photo) for name in LOT for photo in LOT[name]]
        renamed = {
            pair: "cat" if pair == ("bull", 1) and edited is moved else names.get(pair[0], pair[0]) for pair in rows
        }
        train = [(feature(*pair), renamed[pair], digest(*pair)) for pair in rows]
        expected = learn_features(None, train, [], fixed(spec(method), bundle.state.strength))
        assert_same_model(edited, expected)


def fixed(made_with: ModelSpec, strength: float | None) -> ModelSpec:
    """With a given regularisation."""
    options = {"slda": {"shrinkage": strength}, "ridge": {"penalty": strength}, "ranpac": {"penalty": strength}}
    return dataclasses.replace(made_with, options=options.get(made_with.method, {}))


def test_a_model_of_an_older_version_is_validated_once(bundle: Bundle) -> None:
    last = max(bundle.states)
    old = dataclasses.replace(bundle, states={last: dataclasses.replace(bundle.state, strength=None)})
    moved, _ = move_photo(old, digest("bull", 1), "cat", CPU)
    assert moved.state.strength == bundle.state.strength
