"""What EWC and SI share."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.methods.scenarios import batch_at, begun, on_linear_problem
from upcl.methods import MethodClass
from upcl.methods.ewc import EWC
from upcl.methods.si import SI

FEATURES, LABELS = torch.tensor([[1.0, 2.0], [0.5, -1.0], [-1.0, 0.0], [2.0, 1.0]]), torch.tensor([0, 1, 2, 3])


@pytest.mark.parametrize("kind", [EWC, SI])
def test_loss_is_cross_entropy_over_new_classes_and_from_the_second_task_the_penalty(kind: MethodClass) -> None:
    first = on_linear_problem(kind(), FEATURES[:2], LABELS[:2], [2])
    assert list(first.losses(batch_at(FEATURES[:2], LABELS[:2]))) == ["ce"]
    options: dict[str, Any] = {"strength": 3.0}
    method = on_linear_problem(kind(**options), FEATURES, LABELS, [2, 2])
    head = method.net.head
    method.net.hold({"head.weight": torch.full((4, 2), 2.0), "head.bias": torch.ones(4)})
    with torch.no_grad():
        head.weight += 0.5
    losses = method.losses(batch_at(FEATURES[2:], LABELS[2:]))
    rows = F.linear(FEATURES[2:], head.weight[2:], head.bias[2:])
    assert torch.allclose(losses["ce"], F.cross_entropy(rows, torch.tensor([0, 1])))
    assert losses["penalty"].item() >= method.factor * 2 * 0.25 * 8 - 1e-4


@pytest.mark.parametrize("kind", [EWC, SI])
def test_no_image_is_kept_and_parameters_are_held_after_a_task(kind: MethodClass) -> None:
    method = begun(kind)
    assert method.teacher is None and not len(method.memory.samples)
    assert {name for name, _ in method.net.named_parameters()} == {
        name.replace("/", ".") for name in method.net.values.state_dict()
    }
    assert method.net.penalty().item() == 0
    weights = list(method.net.weights.buffers())
    assert all(bool((weight >= 0).all()) for weight in weights) and any(bool(weight.any()) for weight in weights)
