"""Replay."""

from __future__ import annotations

import torch

from tests.methods.gradients import check_gradients, cross_entropy, linear
from tests.methods.scenarios import batch_at, begun, on_fixture_a, second_task, total
from tests.specification import X, Y, close
from upcl.methods.replay import Replay
from upcl.nets import LinearHead


def test_loss_is_cross_entropy_over_all_classes() -> None:
    losses = on_fixture_a("replay")
    assert list(losses) == ["ce"] and close(losses["ce"], 0.690731)


def test_exemplars_are_trained_on_together_with_new_images() -> None:
    method = begun(Replay)
    assert method.teacher is None
    exemplars, new = method.memory.samples, method.task.train
    assert len(exemplars) == 8 and set(exemplars.labels.tolist()) == {0, 1}
    assert sorted(method.data.labels.tolist()) == sorted([*exemplars.labels.tolist(), *new.labels.tolist()])
    assert method.counts.tolist() == [4, 4, 6, 6]


def test_gradient() -> None:
    torch.manual_seed(0)
    method, rows = second_task(Replay(), LinearHead(4)), X.clone().requires_grad_()
    head = method.net.head.double()
    loss = total(method.losses(batch_at(rows, Y)))
    check_gradients(loss, cross_entropy(linear(rows, head), Y), [rows, head.weight, head.bias])
