"""WA."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.methods.scenarios import (
    begun,
    on_fixture_a,
    second_task,
    total,
    train,
)
from tests.specification import close
from upcl.core.types import Samples, Task
from upcl.methods.wa import WA
from upcl.nets import LinearHead


def test_loss_on_fixture_a() -> None:
    assert close(total(on_fixture_a("wa")), 0.673188)


def test_distillation_is_weighted_by_the_share_of_old_classes() -> None:
    method: Any = WA()
    method.task = Task(1, 4, 2, Samples(torch.zeros(0, 1), torch.zeros(0)))
    assert method.loss_weights() == pytest.approx((1 / 3, 2 / 3))


def test_alignment_scales_new_rows_and_leaves_the_bias() -> None:
    method = second_task(WA(), LinearHead(2))
    head = method.net.head
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[3.0, 4.0], [0.0, 5.0], [6.0, 8.0], [0.0, 20.0]]))
        head.bias.fill_(7.0)
    method.align()
    wanted = torch.tensor([[3.0, 4.0], [0.0, 5.0], [2.0, 2.666667], [0.0, 6.666667]])
    assert torch.allclose(head.weight, wanted, atol=1e-5)
    assert head.bias.tolist() == [7.0] * 4
    method.align()
    assert torch.allclose(head.weight, wanted, atol=1e-5), "aligning twice changes nothing"


def test_rows_are_aligned_at_the_end_of_a_task_and_clipped_on_request() -> None:
    method = begun(WA, {"clip_weights": True})
    norms = method.net.head.weight.detach().norm(dim=1)
    assert not torch.isclose(norms[:2].mean(), norms[2:].mean(), rtol=1e-3)
    train(method, Task(2, 4, 1, Samples(method.task.train.inputs[:3], torch.full((3,), 4))))
    weight = method.net.head.weight.detach()
    assert float(weight.min()) >= 0
    assert torch.allclose(weight[:4].norm(dim=1).mean(), weight[4:].norm(dim=1).mean(), rtol=1e-4)
