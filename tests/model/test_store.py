"""The model in a file: reading, locking and replacing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.feature_models import assert_same_model, grow
from upcl.core.errors import UserError
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
