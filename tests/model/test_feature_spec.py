"""Options of models that work on features: what may change, and what is refused instead of being ignored."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.feature_models import grow, spec
from upcl.core.errors import UserError
from upcl.model.feature_spec import feature_spec
from upcl.model.options import LearnOptions

PATH = Path("m.upcl")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (LearnOptions(finetune=True), "learn a new model from all photos with --finetune"),
        (LearnOptions(size=96), "leave out --size 96"),
        (LearnOptions(epochs=3), "--epochs: a classifier in closed form is computed"),
        (LearnOptions(memory="5/class", epochs=2), "--epochs and --memory: a classifier"),
        (LearnOptions(method="upcl"), "method cannot change"),
        (LearnOptions(backbone="resnet18"), "backbone cannot change"),
    ],
)
def test_options_without_effect_are_refused(options: LearnOptions, message: str) -> None:
    for existing in (spec(), spec("ncm", automatic=True)):
        with pytest.raises(UserError, match=message):
            feature_spec(options, existing, PATH)
    assert feature_spec(LearnOptions(size=32, frozen=True), spec(), PATH) == spec()


def test_a_method_that_is_trained_on_features_has_epochs_and_memory() -> None:
    updated = feature_spec(LearnOptions(epochs=3, memory="5/class"), spec("icarl"), PATH)
    assert updated.memory == "5/class"


@pytest.mark.parametrize("method", ["ncm", "slda", "ridge", "ranpac"])
def test_the_method_of_a_model_in_closed_form_can_be_pinned(method: str) -> None:
    bundle = grow(None, {"ant": range(9), "bull": range(9)}, None, spec("ncm", automatic=True))
    pinned = feature_spec(LearnOptions(method=method), bundle.spec, PATH)
    assert pinned.method == method and not pinned.automatic
    grown = grow(bundle.__class__(pinned, bundle.history, bundle.states), {"cat": range(9)})
    assert grown.spec.method == method and grown.history[-1].note == ""
    assert feature_spec(LearnOptions(), grown.spec, PATH) == grown.spec


def test_options_of_a_pinned_method_are_its_own_and_sums_have_no_ranpac() -> None:
    pinned = feature_spec(LearnOptions(method="ridge", options={"penalty": 0.1}), spec("ncm", automatic=True), PATH)
    assert pinned.options["penalty"] == 0.1
    with pytest.raises(UserError, match="keeps only sums"):
        feature_spec(LearnOptions(method="ranpac"), spec("ncm", keep="none"), PATH)
