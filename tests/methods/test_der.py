"""DER."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.methods.expanded import copied, cross_entropy, given_features, num_parameters, unchanged
from tests.methods.gradients import check_expanding, check_gradients, linear
from tests.methods.gradients import cross_entropy as by_loop
from tests.methods.scenarios import batch_at, built, first_task, small_data, split_tasks, total, train
from tests.runs import quick_run
from tests.specification import X, Y, close
from upcl.core.types import Samples
from upcl.methods.der import DER
from upcl.nets import make_backbone
from upcl.training.engine import fit


def test_both_losses_equal_a_naive_loop() -> None:
    losses = given_features(DER(auxiliary=0.5)).losses(batch_at(X, Y))
    assert close(losses["ce"], 0.690731), "fixture A"
    newest = torch.cat([torch.zeros(3, 1), X[:, 2:]], 1)  # scores of "old" and of each new class
    assert close(losses["auxiliary"], 0.5 * cross_entropy(newest, torch.tensor([0, 2, 1])))
    assert close(2 * losses["auxiliary"], 0.684729), "classes 0, 3, 2 are 0, 2, 1"


def test_all_old_classes_are_one_class_of_the_second_head() -> None:
    method = given_features(DER())
    old = [method.losses(batch_at(X, torch.tensor([0, k, 2])))["auxiliary"] for k in (0, 1)]
    assert torch.equal(*old)


def test_gradient_of_the_second_head_reaches_the_newest_features_alone() -> None:
    method, rows = given_features(DER()), X.clone().requires_grad_()
    method.losses(batch_at(rows, Y))["auxiliary"].backward()
    assert rows.grad is not None and not bool(rows.grad[:, :2].any())
    softmax = torch.cat([torch.zeros(3, 1), X[:, 2:]], 1).softmax(1)
    wanted = (softmax - torch.eye(3, dtype=X.dtype)[[0, 2, 1]])[:, 1:] / 3
    assert torch.allclose(rows.grad[:, 2:], wanted, atol=1e-7)


def test_the_first_task_has_cross_entropy_alone() -> None:
    assert list(first_task(given_features(DER())).losses(batch_at(X, Y))) == ["ce"]


def test_scores_are_divided_while_the_head_is_trained_again() -> None:
    method = given_features(DER(temperature=2.0))
    method.net.backbone.forward = lambda rows: rows
    assert close(total(method.head_losses(batch_at(X, Y))), cross_entropy(X / 2, Y))


def learned(method: Any, tasks: int = 2, num: int = 6) -> Any:
    for task in split_tasks(small_data(2 * tasks, train=num), [2] * tasks):
        train(method, task)
    return method


def test_earlier_branches_keep_their_weights_and_statistics() -> None:
    data = small_data()
    method = built(DER, data)
    first, second = split_tasks(data, [2, 2])
    train(method, first)
    before = copied(method.net.backbone.branches[0])
    train(method, second)
    assert len(method.net.backbone.branches) == 2
    assert unchanged(method.net.backbone.branches[0], before)
    assert not unchanged(method.net.backbone.newest, before), "the new one starts as a copy and is trained"


def test_the_second_stage_trains_the_head_on_equally_many_images() -> None:
    data = small_data(train=20)
    method = built(DER, data, {"reset_head": True}, memory="10", epochs=170)
    first, second = split_tasks(data, [2, 2])
    list(method.learn(first))  # without training
    stages = method.learn(second)
    assert next(stages).name == "train"
    rows, backbone = method.net.head.weight.detach().clone(), copied(method.net.backbone)
    stage = next(stages)
    assert (stage.name, stage.recipe.epochs, stage.recipe.milestones) == ("head", 30, (15,))
    assert stage.data.counts(4).tolist() == [5, 5, 5, 5]
    assert [id(p) for p in stage.params] == [id(p) for p in method.net.head.parameters()]
    assert not torch.equal(method.net.head.weight, rows) and not bool(method.net.head.bias.any()), "new random rows"
    short = type(stage)(**{**vars(stage), "recipe": stage.recipe.scaled(1)})
    fit(method.net, short, transform=method.setting.transform, device=method.setting.device, seed_path=(0,))
    assert unchanged(method.net.backbone, backbone)
    assert list(stages) == []


def test_images_of_the_second_stage_are_those_of_the_task() -> None:
    method: Any = given_features(DER())
    labels = torch.tensor([0, 1, 1, 2, 2, 2, 3, 3])
    method.data = Samples(torch.arange(8)[:, None], labels)
    drawn = method.balanced()
    assert drawn.labels.tolist() == [0, 1, 2, 3]
    assert torch.equal(labels[drawn.inputs[:, 0]], drawn.labels)


@pytest.mark.parametrize(
    ("options", "memory", "names"),
    [
        ({}, "8", ["train", "head"]),
        ({"head_share": 0}, "8", ["train"]),
        ({}, "1", ["train"]),  # an old class has no image
        ({}, "0", ["train"]),
    ],
)
def test_when_the_head_is_trained_again(options: dict[str, float], memory: str, names: list[str]) -> None:
    data = small_data()
    method = built(DER, data, options, memory=memory)
    first, second = split_tasks(data, [2, 2])
    assert [stage.name for stage in method.learn(first)] == ["train"]
    assert [stage.name for stage in method.learn(second)] == names


def test_the_head_continues_from_its_rows_by_default() -> None:
    data = small_data()
    method = built(DER, data)
    first, second = split_tasks(data, [2, 2])
    train(method, first)
    stages = method.learn(second)
    next(stages)
    rows = method.net.head.weight.detach().clone()
    next(stages)
    assert torch.equal(method.net.head.weight, rows)
    assert DER(**DER.official_options).reset_head, "as in the paper"


def test_a_restored_method_has_the_same_scores() -> None:
    method = learned(built(DER, small_data(6)), tasks=3)
    other = built(DER, small_data(6))
    other.restore(method.state())
    images = method.memory.samples
    assert other.net.growth == [2, 2, 2]
    assert torch.equal(method.scores(method.extract(images)), other.scores(other.extract(images)))


def test_parameters_grow_by_a_backbone_per_task() -> None:
    method, one = learned(built(DER, small_data(6)), tasks=3), num_parameters(make_backbone("small"))
    assert num_parameters(method.net.backbone) == 3 * one
    assert num_parameters(method.net) == 3 * one + 6 * (3 * 128 + 1), "the head; the second head is gone"


@pytest.mark.parametrize("name", ["der", "memo", "foster"])
def test_precision_and_shards(name: str) -> None:
    plain, lower, sharded = (
        quick_run(name, "synthetic:classes=6,train=9,test=4", tasks=3, memory="12", epochs=1, **changes)
        for changes in ({}, {"precision": "bfloat16"}, {"shards": 2})
    )
    assert len({record.weights_sha256 for record in (plain, lower, sharded)}) == 3
    for record in (lower, sharded):
        assert record.finished and all(math.isfinite(value) for value in record.top1.head)


def test_gradient_of_both_stages() -> None:
    method, rows = given_features(DER(auxiliary=0.5, temperature=5.0)), X.clone().requires_grad_()
    check_expanding(method, total(method.losses(batch_at(rows, Y))), rows, Y)
    head = method.net.head
    again = total(method.head_losses(batch_at(rows, Y)))
    check_gradients(again, by_loop(linear(rows, head) / 5, Y), [rows, head.weight, head.bias])
