"""The model in a file: reading, locking and replacing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.feature_models import assert_same_model, grow
from upcl.core.errors import UserError
from upcl.core.files import atomic_path
from upcl.model.store import ModelStore


def test_a_change_by_another_process_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "m.upcl"
    first, second = ModelStore(path), ModelStore(path)
    bundle = grow(None, {"ant": range(3), "cat": range(3)})
    with first.exclusive():
        first.replace(bundle)
    assert second.classes == []
    with second.exclusive():
        assert second.classes == ["ant", "cat"]
    assert_same_model(ModelStore(path).require_bundle(), bundle)


def test_a_missing_model_suggests_a_similar_name(tmp_path: Path) -> None:
    with ModelStore(tmp_path / "birds.upcl").exclusive():
        ModelStore(tmp_path / "birds.upcl").replace(grow(None, {"ant": range(3)}))
    with pytest.raises(UserError, match=r"did you mean birds\.upcl"):
        ModelStore(tmp_path / "brids.upcl").require_bundle()
    with pytest.raises(UserError, match="create it with"):
        ModelStore(tmp_path / "elsewhere" / "x.upcl").require_bundle()


def test_what_a_killed_process_left_is_removed_under_the_lock(tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "m.upcl")
    with atomic_path(store.path) as partial:
        partial.write_bytes(b"half a model")
        ModelStore(store.path)
        assert partial.exists(), "a process that only reads removes nothing"
        with store.exclusive():
            assert not partial.exists()
        partial.write_bytes(b"")


@pytest.mark.parametrize("length", [250, 300])
def test_a_name_that_leaves_no_room_for_the_lock_is_refused_at_once(length: int, tmp_path: Path) -> None:
    name = "a" * 244 + ".upcl"  # .NAME.lock has 255 bytes
    with ModelStore(tmp_path / name).exclusive():
        ModelStore(tmp_path / name).replace(grow(None, {"ant": range(3)}))
    assert ModelStore(tmp_path / name).classes == ["ant"]
    with pytest.raises(UserError, match=r"name of .* is too long for this file system"):
        ModelStore(tmp_path / ("a" * (length - 5) + ".upcl"))
