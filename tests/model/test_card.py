"""The model card."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.cli.models import FIRST, make_bundle
from tests.model.feature_models import grow
from upcl.model.card import accuracy_interval, write_card
from upcl.model.editing import rename_class

TRAIN = {"ant": range(12), "bull": range(12), "cat": range(4)}
TESTED = {"ant": range(100, 110), "bull": range(100, 110)}


def test_the_card_has_what_was_measured() -> None:
    bundle = grow(None, TRAIN, TESTED)
    card = write_card(bundle, Path("models/farm.upcl"))
    accuracy = bundle.history[-1].accuracy[bundle.state.reading]
    assert accuracy is not None
    low, high = accuracy_interval(accuracy, 20)
    assert card.startswith("# farm\n") and "28 photos in 1 steps" in card
    assert f"{accuracy:.1f} % of 20 held-out photos" in card and f"interval {low:.1f} to {high:.1f} %" in card
    assert "| ant | 12 | 10 |" in card and "| cat | 4 | 0 | - |" in card
    assert "Fewer than 10 photos were learned of: cat." in card
    assert "method: Ridge" in card and "frozen" in card


def test_the_interval_is_wilsons() -> None:
    low, high = accuracy_interval(100.0, 10)
    assert high == pytest.approx(100.0) and low == pytest.approx(100 * 10 / (10 + 1.959964**2), abs=1e-3)


def test_what_was_not_measured_is_not_claimed() -> None:
    step = dataclasses.replace(FIRST, accuracy={}, by_class={"cat": None, "dog": None})
    card = write_card(make_bundle(step), Path("pets.upcl"))
    assert "Not measured: no photo was held out." in card and "was not measured" in card
    assert "Recognised least" not in card


def test_names_cannot_change_the_document() -> None:
    bundle = rename_class(grow(None, TRAIN, TESTED), "bull", "<img src=x>|`*a\n# b")
    card = write_card(bundle, Path("farm.upcl"))
    assert "<img" not in card and "\n# b" not in card and "&lt;img src=x&gt;\\|\\`\\*a" in card
