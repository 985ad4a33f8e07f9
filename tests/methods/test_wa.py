"""WA."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.methods.scenarios import (
    begun,
    on_fixture_a,
    total,
    train,
)
from tests.specification import close
from upcl.core.types import Samples, Task
from upcl.methods.wa import WA


def test_loss_on_fixture_a() -> None:
    assert close(total(on_fixture_a("wa")), 0.673188)


def test_distillation_is_weighted_by_the_share_of_old_classes() -> None:
    method: Any = WA()
    method.task = Task(1, 4, 2, Samples(torch.zeros(0, 1), torch.zeros(0)))
    assert method.loss_weights() == pytest.approx((1 / 3, 2 / 3))


def test_rows_are_aligned_at_the_end_of_a_task_and_clipped_on_request() -> None:
    method = begun(WA, {"clip_weights": True})
    norms = method.net.head.weight.detach().norm(dim=1)
    assert not torch.isclose(norms[:2].mean(), norms[2:].mean(), rtol=1e-3)
    train(method, Task(2, 4, 1, Samples(method.task.train.inputs[:3], torch.full((3,), 4))))
    weight = method.net.head.weight.detach()
    assert float(weight.min()) >= 0
    assert torch.allclose(weight[:4].norm(dim=1).mean(), weight[4:].norm(dim=1).mean(), rtol=1e-4)
