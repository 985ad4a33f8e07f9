"""LUCIR."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.methods.scenarios import (
    GivenTeacher,
    batch_at,
    begun,
    second_task,
    total,
)
from tests.specification import close
from upcl.core.memory import class_means
from upcl.core.types import Losses, Samples, Task
from upcl.methods.lucir import LUCIR
from upcl.nets import CosineHead


def lucir_fixture(**options: Any) -> Losses:
    method = second_task(LUCIR(**options), CosineHead(2))
    head = method.net.head
    with torch.no_grad():
        head.old.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
        head.new.copy_(torch.tensor([[-1.0, 1.0], [1.0, 1.0]]))
        head.sigma.fill_(4.0)
    method.teacher = GivenTeacher(torch.tensor([[0.8, 0.6], [1.0, 0.0], [0.0, 1.0]]))
    features, labels = torch.tensor([[0.6, 0.8], [1.0, -0.5], [-0.2, 0.9]]), torch.tensor([0, 1, 3])
    losses: Losses = method.losses(batch_at(features, labels))
    return losses


def test_terms_of_the_specification() -> None:
    losses = lucir_fixture()
    assert close(losses["ce"], 3.296963)
    assert close(losses["forget"] / 5, 0.056462)
    assert close(losses["rank"], 0.548703)
    assert close(total(losses), 4.127976)
    assert close(lucir_fixture(ranking="sum")["rank"], 1.097406)


@pytest.mark.parametrize(("old", "new", "value"), [(10, 10, 5.0), (90, 10, 15.0), (50, 10, 11.180340)])
def test_weight_of_the_feature_term(old: int, new: int, value: float) -> None:
    method = LUCIR()
    method.task = Task(1, old, new, Samples(torch.zeros(0, 1), torch.zeros(0)))
    assert close(method.feature_weight, value)


def test_imprinted_rows_have_the_mean_norm_of_old_rows() -> None:
    method = second_task(LUCIR(), CosineHead(2), torch.tensor([1, 1, 2]), (2, 1))
    with torch.no_grad():
        method.net.head.old.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    method.task = Task(1, 2, 1, Samples(torch.zeros(2, 1), torch.tensor([2, 2])))
    method.extract = lambda _: torch.tensor([[3.0, 4.0], [1.0, 0.0]])
    method.imprint()
    assert torch.allclose(method.net.head.new, torch.tensor([[1.341641, 0.670820]]), atol=1e-5)


def test_new_rows_are_imprinted_when_a_task_begins() -> None:
    method = begun(LUCIR)
    task = method.task
    means = class_means(method.extract(task.train), task.train.labels - task.num_old, task.num_new)
    assert torch.allclose(F.normalize(method.net.head.new), means, atol=1e-5)


def test_features_are_signed_and_old_rows_are_not_trained() -> None:
    method = second_task(LUCIR(), CosineHead(2))
    assert not any(p is method.net.head.old for p in method.stage().params)
    net = method.make_net()
    assert not net.backbone.blocks[-1].relu


def test_at_most_all_new_classes_are_rivals() -> None:
    method = second_task(LUCIR(rivals=5), CosineHead(2))
    assert torch.isfinite(method.ranking_loss(torch.rand(3, 4), torch.tensor([0, 1, 3])))
    assert float(method.ranking_loss(torch.rand(3, 4), torch.tensor([2, 2, 3]))) == 0, "no old image, no ranking"
