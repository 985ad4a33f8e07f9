"""Joint: the upper bound."""

from __future__ import annotations

import torch

from tests.methods.scenarios import (
    built,
    on_fixture_a,
    small_data,
    split_tasks,
    total,
    train,
)
from tests.specification import close
from upcl.methods.joint import Joint


def test_loss_is_cross_entropy_over_all_classes() -> None:
    assert close(total(on_fixture_a("joint")), 0.690731)


def test_every_image_is_kept_and_trained_on() -> None:
    data = small_data()
    method = built(Joint, data, memory="0")
    first, second = split_tasks(data, [2, 2])
    train(method, first)
    train(method, second)
    assert len(method.data) == len(data.train)
    assert method.counts.tolist() == [6, 6, 6, 6]
    assert len(method.memory.samples) == len(data.train)


def test_every_task_starts_from_a_new_network() -> None:
    method = built(Joint, small_data())
    first, second = split_tasks(small_data(), [2, 2])
    train(method, first)
    before = method.net
    method.begin(second)
    assert method.net is not before
    assert method.net.growth == [2, 2]
    assert not torch.equal(method.net.head.weight[:2], before.head.weight), "old rows are initialised again"


def test_a_frozen_backbone_keeps_its_weights_in_every_task() -> None:
    method = built(Joint, small_data())
    backbone = method.net.backbone.requires_grad_(False)
    for task in split_tasks(small_data(), [2, 2]):
        method.begin(task)
        assert method.net.backbone is backbone
