"""BiC."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.methods.scenarios import (
    GivenScores,
    GivenTeacher,
    batch_at,
    built,
    second_task,
    small_data,
    split_tasks,
    total,
    train,
)
from tests.specification import OLD, X, Y, close
from upcl.core.types import Samples, Task
from upcl.methods.bic import BiC
from upcl.nets import CorrectedHead


def corrected(alpha: float, beta: float) -> Any:
    method = second_task(BiC(), CorrectedHead(4, all_pairs=False))
    head = method.net.head
    with torch.no_grad():
        head.weight.copy_(torch.eye(4))
        for value, number in zip(head.newest_pair, (alpha, beta), strict=True):
            value.fill_(number)
    method.net.double()
    return method


def test_second_stage_has_one_softmax() -> None:
    method = corrected(0.8, -0.1)
    losses = method.bias_losses(batch_at(X, Y))
    assert close(losses["ce"], 0.797612), "1.175662 would be PyCIL's double softmax"
    assert close(total(losses), 0.798112)


def test_gradient_of_the_correction() -> None:
    method = corrected(1.0, 0.0)
    method.penalty = 0.0
    loss = total(method.bias_losses(batch_at(X, Y)))
    gradients = torch.autograd.grad(loss, method.net.head.newest_pair)
    assert close(gradients[0], -0.385350)
    assert close(gradients[1], -0.221077)


def test_the_corrected_teacher_is_distilled() -> None:
    method = second_task(BiC(), GivenScores(4))
    head = CorrectedHead(2, all_pairs=False)
    head.grow(1)
    head.grow(1)
    with torch.no_grad():
        head.weight.copy_(torch.eye(2))
        for value, number in zip(head.newest_pair, (0.9, 0.05), strict=True):
            value.fill_(number)
    method.teacher = GivenTeacher(OLD, head.double())
    losses = method.losses(batch_at(X, Y))
    assert close(losses["kd"] / 0.5, 0.658326)
    assert close(total(losses), 0.674529)


def test_distillation_is_weighted_by_the_share_of_old_classes() -> None:
    method: Any = BiC()
    method.task = Task(1, 4, 2, Samples(torch.zeros(0, 1), torch.zeros(0)))
    assert method.loss_weights() == pytest.approx((1 / 3, 2 / 3))


@pytest.mark.parametrize(
    ("memory", "num_old", "each"),
    [(2000, 10, 20), (2000, 20, 10), (2000, 30, 6), (2000, 70, 2), (2000, 90, 2), (500, 90, 1)],
)
def test_number_of_held_out_images(memory: int, num_old: int, each: int) -> None:
    method = BiC()
    counts = torch.tensor([memory // num_old] * num_old + [50] * 10)
    labels = torch.arange(num_old + 10).repeat_interleave(counts)
    method.task = Task(1, num_old, 10, Samples(torch.zeros(0, 1), torch.zeros(0)))
    method.data = Samples(torch.arange(len(labels))[:, None], labels)
    train, back = method.split()
    assert back.counts(num_old + 10).tolist() == [each] * (num_old + 10)
    assert len(train) + len(back) == len(labels)
    assert not set(train.inputs.flatten().tolist()) & set(back.inputs.flatten().tolist())


def test_second_stage_trains_two_numbers_in_evaluation_mode() -> None:
    data = small_data(train=20)
    method = built(BiC, data, memory="20")
    first, second = split_tasks(data, [2, 2])
    train(method, first)
    stages = list(method.learn(second))
    assert [stage.name for stage in stages] == ["train", "bias"]
    assert [id(p) for p in stages[1].params] == [id(p) for p in method.net.head.newest_pair]
    assert not {id(p) for p in stages[0].params} & {id(p) for p in stages[1].params}
    assert not stages[1].augment
    assert stages[1].frozen == [method.net]


def test_correction_is_skipped_if_no_old_class_has_two_images() -> None:
    method = built(BiC, small_data(), memory="2")
    first, second = split_tasks(small_data(), [2, 2])
    train(method, first)
    assert [stage.name for stage in method.learn(second)] == ["train"]
    assert [p.item() for p in method.net.head.newest_pair] == [1.0, 0.0]
