"""NCCIL."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.methods.scenarios import (
    GivenTeacher,
    batch_at,
    begun,
    built,
    first_task,
    second_task,
    small_data,
    split_tasks,
    total,
)
from tests.specification import COUNTS, LABELS, RAW, RAW_TEACHER, Y, close
from upcl.core.types import Batch
from upcl.methods.nccil import NCCIL, flying_target
from upcl.nets import PrototypeHead


def test_terms_of_the_specification() -> None:
    method = second_task(NCCIL(flight="off"), PrototypeHead(2, frame=torch.eye(2)), torch.tensor([5, 5]), (1, 1))
    method.targets = torch.eye(2)
    method.teacher = GivenTeacher(torch.tensor([[1.0, 0.0], [0.5, 0.9]]))
    losses = method.losses(batch_at(torch.tensor([[1.0, 0.2], [0.3, 0.9]]), torch.tensor([0, 1])))
    assert close(losses["align"], 0.000753)
    assert close(losses["hold"], 0.000838)
    assert close(total(losses), 0.001591)


def test_dot_products_of_the_specification() -> None:
    dots = (F.normalize(torch.tensor([[1.0, 0.2], [0.3, 0.9]])) * torch.eye(2)).sum(1)
    assert torch.allclose(dots, torch.tensor([0.980581, 0.948683]), atol=1e-5)


def test_targets_of_new_classes_move_to_the_corners() -> None:
    target = flying_target(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.6, 0.8]]), 0.25)
    assert torch.allclose(target, torch.tensor([[0.759257, 0.650791]]), atol=1e-5)
    method = second_task(NCCIL(), PrototypeHead(4, frame=torch.eye(4)))
    method.targets = torch.eye(4)
    method.centroids = F.normalize(torch.ones(2, 4))
    batch = batch_at(torch.zeros(1, 4), Y[:1], epoch=5, epochs=10)
    assert torch.equal(method.targets_at(batch)[:2], torch.eye(4)[:2]), "old classes stay at their corners"
    half = F.normalize(0.5 * torch.eye(4)[2:] + 0.5 * method.centroids)
    assert torch.allclose(method.targets_at(batch)[2:], half)
    method.flight = "half"
    assert torch.allclose(method.targets_at(batch)[2:], torch.eye(4)[2:]), "half-rate: there at half of the epochs"


def test_every_new_class_has_a_centroid() -> None:
    """The UPCL repository leaves the first new class of each task at zero."""
    data = small_data(train=4)
    method = built(NCCIL, data)
    for task in split_tasks(data, [2, 2]):
        method.begin(task)
        assert torch.allclose(method.centroids.norm(dim=1), torch.ones(2), atol=1e-5)
        start = method.targets_at(Batch(torch.zeros(1), torch.zeros(1), 0, 10, 0, 1))[task.num_old :]
        assert torch.allclose(start, method.centroids, atol=1e-6)


def test_official_form() -> None:
    trained = begun(NCCIL, {"form": "official"})
    assert isinstance(trained.net.projector, nn.Sequential), "the authors' neck"
    assert torch.allclose(trained.net.head.vectors.norm(dim=1), torch.ones(4), atol=1e-5)
    method = second_task(NCCIL(form="official"), PrototypeHead(4, frame=torch.eye(4)))
    assert method.loss_weights() == (5.0, 50.0)
    assert first_task(method).loss_weights()[0] == 10.0


def test_values_of_the_official_form() -> None:
    method = second_task(NCCIL(form="official"), PrototypeHead(4, frame=torch.eye(4)), COUNTS, (3, 1))
    method.net.growth = [1, 2, 1]
    assert method.loss_weights() == pytest.approx((5.0, 50 * 3**0.5))
    method.targets, method.centroids = torch.eye(4), F.normalize(torch.ones(1, 4))
    flight = method.targets_at(batch_at(torch.zeros(1, 4), Y[:1], epoch=9, epochs=10))
    assert torch.allclose(flight[3], torch.eye(4)[3]), "(e + 1) / E reaches the corner in the last epoch"
    rows, old = torch.tensor(RAW), torch.tensor(RAW_TEACHER)
    method.teacher = GivenTeacher(old)
    held = method.losses(batch_at(rows, LABELS, epoch=9, epochs=10))["hold"]
    of_old = LABELS < 3
    squares = ((F.normalize(rows) * F.normalize(old)).sum(1) - 1).square() / 2
    assert float(held) == pytest.approx(50 * 3**0.5 * float(squares[of_old].mean()), rel=1e-4)
