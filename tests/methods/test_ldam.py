"""iCaRL with label-distribution-aware margins."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.methods.scenarios import (
    GivenScores,
    GivenTeacher,
    batch_at,
    begun,
    second_task,
)
from tests.specification import COUNTS, Y, close
from upcl.methods.ldam import LDAM

COSINES = torch.tensor([[0.6, 0.1, -0.2, 0.3], [0.0, 0.2, 0.1, 0.7], [-0.3, 0.4, 0.5, 0.1]], dtype=torch.float64)


@pytest.mark.parametrize(("options", "scale", "value"), [({}, 30, 3.245920), ({"linear": True}, 1, 1.252979)])
def test_margins_on_scaled_cosines_and_on_linear_logits(options: dict[str, Any], scale: float, value: float) -> None:
    method = second_task(LDAM(**options), GivenScores(4))
    method.teacher = GivenTeacher(30 * torch.tensor([[0.5, 0.2], [0.1, 0.2], [-0.2, 0.5]], dtype=torch.float64))
    losses = method.losses(batch_at(scale * COSINES, Y))
    assert close(losses["ce"], value)
    if scale == 30:
        assert close(losses["kd"], 0.226379)
        method.plain_kd = True
        plain = method.losses(batch_at(scale * COSINES, Y))
        assert not close(plain["kd"], 0.226379)
        assert close(plain["ce"], value)


def test_deferred_reweighting_starts_late() -> None:
    method = second_task(LDAM(deferred=True), GivenScores(4))
    assert close(method.losses(batch_at(30 * COSINES, Y, epoch=100))["ce"], 3.245920), "before 80 % of the epochs"
    weighted = method.losses(batch_at(30 * COSINES, Y, epoch=140))["ce"]
    weights = (1 - 0.9999) / (1 - 0.9999 ** COUNTS.double())
    weights = weights / weights.sum() * 4
    margins = torch.tensor([0.5, 0.5, 0.223607, 0.223607], dtype=torch.float64)
    logits = 30 * (COSINES - margins[Y][:, None] * F.one_hot(Y, 4))
    assert close(weighted, float(F.cross_entropy(logits, Y, weight=weights)))


@pytest.mark.parametrize(("epoch", "weighted"), [(79, False), (80, True)])
def test_reweighting_covers_the_last_fifth_of_the_epochs(epoch: int, weighted: bool) -> None:
    method = second_task(LDAM(deferred=True), GivenScores(4))
    plain = second_task(LDAM(), GivenScores(4)).losses(batch_at(30 * COSINES, Y, epoch, 100))["ce"]
    assert close(method.losses(batch_at(30 * COSINES, Y, epoch, 100))["ce"], float(plain)) != weighted


def test_new_rows_are_never_zero() -> None:
    assert float(begun(LDAM).net.head.vectors.detach().norm(dim=1).min()) > 0.1
