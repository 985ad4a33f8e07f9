"""The measurements of precision, backbones and recipes: that they measure what they say."""

from __future__ import annotations

import pytest
import torch

from upcl.nets import Execution
from upcl.research.bench import budget
from upcl.research.bench.budget import BareStep, epochs_to_goal, measure_budget, quick_request


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_bare_step_trains_the_backbone(precision: str) -> None:
    step = BareStep("small", Execution(precision))  # type: ignore[arg-type]
    step.images = step.images[:4]
    before = next(step.net.parameters()).detach().clone()
    step()
    assert not torch.equal(before, next(step.net.parameters()))
    assert step.net.execution.precision == precision


def test_every_ratio_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "faster_precision", lambda: "float32")
    monkeypatch.setattr(budget, "BATCH_SIZE", 2)
    monkeypatch.setattr(budget, "EPOCHS", (1, 1))
    monkeypatch.setattr(quick_request, "__defaults__", ("synthetic:classes=2,train=4,test=4",))
    rows = list(measure_budget(repeats=1))
    assert [row.name for row in rows] == [
        "medium, bfloat16 (auto: float32)",
        "pooled, bfloat16 (auto: float32)",
        "pooled against medium, one step",
        "quick recipe, seconds to 80 %",
    ]
    assert rows[-1].ours.startswith("new, 1 epochs") and rows[-1].other.startswith("old, 1 epochs")


def test_the_goal_is_reached_with_as_few_epochs_as_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "EPOCHS", (1, 2))
    request = quick_request("small", "float32", "synthetic:classes=2,train=4,test=4")
    assert epochs_to_goal(request, goal=0.0) == 1
    assert epochs_to_goal(request, goal=101.0) == 2, "the last attempt counts"
