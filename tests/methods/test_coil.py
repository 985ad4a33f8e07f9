"""Coil."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.methods.scenarios import (
    GivenTeacher,
    begun,
    second_task,
)
from tests.specification import OLD, Y, close
from upcl.core.types import Batch, Losses, Samples, Task
from upcl.methods.coil import Coil, transport
from upcl.nets import CosineHead


def test_transported_rows_of_the_specification() -> None:
    old, new = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.8, 0.6], [0.6, 0.8], [-0.6, 0.8]])
    cost = torch.cdist(old, new, p=3)
    wanted = torch.tensor([[0.607318, 0.832034, 1.664067], [0.832034, 0.607318, 0.607318]])
    assert torch.allclose(cost, wanted, atol=1e-5)
    rows = transport(old, new, torch.tensor([[2.0, 0.0], [0.0, 1.0]]), 0.464)
    wanted = torch.tensor([[1.466291, 0.441257], [1.064041, 0.843506], [0.330989, 1.576559]])
    assert torch.allclose(rows, wanted, atol=1e-5)


def test_rows_are_calibrated_by_the_mean_norm() -> None:
    old, new = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.8, 0.6], [0.6, 0.8], [-0.6, 0.8]])
    plan = torch.tensor([[0.256226, 0.185935, 0.057839], [0.077107, 0.147398, 0.275495]])
    rows = transport(old, new, torch.tensor([[2.0, 0.0], [0.0, 1.0]]), 0.464)
    gamma = rows[0, 0] / (2 * plan[0, 0])
    assert float(gamma) == pytest.approx(2.861322, abs=1e-4)


def coil_fixture(epoch: int, epochs: int = 160) -> Losses:
    method = second_task(Coil(), CosineHead(2))
    method.teacher = GivenTeacher(OLD.float())
    method.ahead = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    method.transport_back = lambda: setattr(method, "back", torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    features = torch.tensor([[0.6, 0.8], [1.0, -0.5], [-0.2, 0.9]])
    losses: Losses = method.losses(Batch(features, Y, epoch, epochs, 0, 1))
    return losses


def test_prospective_term_in_the_first_epoch_and_retrospective_term_later() -> None:
    assert set(coil_fixture(0)) == {"ce", "kd", "ahead"}
    assert set(coil_fixture(1)) == {"ce", "kd", "back"}
    assert close(coil_fixture(80)["back"] / coil_fixture(40)["back"], 4.0)
    assert close(coil_fixture(8, 16)["back"], float(coil_fixture(80)["back"])), "the weight scales with the epochs"
    features = F.normalize(torch.tensor([[0.6, 0.8], [1.0, -0.5], [-0.2, 0.9]]))
    back = features @ torch.tensor([[0.0, 1.0], [1.0, 0.0]]).T
    plain = -((OLD.float() / 2).softmax(1) * (back / 2).log_softmax(1)).sum(1).mean()
    assert close(coil_fixture(80)["back"], 1e-3 * 0.25 * float(plain))


def test_means_use_exemplars_and_the_present_task_only() -> None:
    method = second_task(Coil(), CosineHead(2))
    extracted: list[Samples] = []

    def extract(samples: Samples) -> Tensor:
        extracted.append(samples)
        return torch.rand(len(samples), 2)

    method.extract = extract
    method.memory = type("Stored", (), {"samples": Samples(torch.zeros(2, 1), torch.tensor([0, 1]))})()
    method.task = Task(1, 2, 2, Samples(torch.zeros(4, 1), torch.tensor([2, 2, 3, 3])))
    method.means()
    assert extracted == [method.memory.samples, method.task.train]


def test_rows_are_transported_back_once_per_epoch_or_as_configured() -> None:
    for refresh, wanted in ((0, [0]), (2, [0, 2, 4])):
        method = second_task(Coil(refresh=refresh), CosineHead(2))
        method.teacher = GivenTeacher(OLD.float())
        calls: list[int] = []
        method.ahead = method.back = torch.eye(2)
        for step in range(5):
            method.transport_back = lambda step=step, calls=calls: calls.append(step)
            method.losses(Batch(torch.rand(3, 2), Y, 1, 10, step, 5))
        assert calls == wanted


def test_new_rows_start_at_the_transported_ones_and_targets_have_no_gradient() -> None:
    method = begun(Coil)
    old, new = method.means()
    rows = transport(old, new, method.net.head.old, method.regularisation)
    assert torch.allclose(method.net.head.new, rows, atol=1e-5)
    features = torch.tensor([[0.6, 0.8], [1.0, -0.5], [-0.2, 0.9]])
    fixture = second_task(Coil(), CosineHead(2))
    fixture.teacher = GivenTeacher(OLD.float())
    fixture.ahead = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    losses = fixture.losses(Batch(features, Y, 0, 160, 0, 1))
    advice = F.normalize(features) @ fixture.ahead.T
    scores = fixture.net.head(features)[:, 2:]
    plain = -((advice / 2).softmax(1) * (scores / 2).log_softmax(1)).sum(1).mean()
    assert float(losses["ahead"].detach()) == pytest.approx(1e-3 * float(plain.detach()), rel=1e-5)
    with torch.no_grad():
        fixture.net.head.new.zero_()
    rows = features.requires_grad_()
    again = fixture.losses(Batch(rows, Y, 0, 160, 0, 1))["ahead"]
    (gradient,) = torch.autograd.grad(again, rows, allow_unused=True)
    assert gradient is None or not bool(gradient.any()), "with zero rows, only the targets could have one"


def test_distillation_is_weighted_by_the_share_of_old_classes() -> None:
    method: Any = Coil()
    method.task = Task(1, 4, 2, Samples(torch.zeros(0, 1), torch.zeros(0)))
    assert method.loss_weights() == pytest.approx((1 / 3, 2 / 3))


def test_new_rows_are_never_zero() -> None:
    assert float(begun(Coil).net.head.vectors.detach().norm(dim=1).min()) > 0.1
