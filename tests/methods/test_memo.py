"""MEMO."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from tests.methods.expanded import copied, cross_entropy, given_features, num_parameters, unchanged
from tests.methods.gradients import check_expanding
from tests.methods.scenarios import (
    WithoutStages,
    batch_at,
    built,
    make_setting,
    small_data,
    split_tasks,
    total,
    train,
)
from tests.runs import quick_run
from tests.specification import X, Y, close
from upcl.core.errors import UserError
from upcl.methods.der import DER
from upcl.methods.memo import MEMO
from upcl.nets import make_backbone
from upcl.nets.extractors import StagedExtractor


def test_losses_are_those_of_der() -> None:
    losses = given_features(MEMO(auxiliary=2.0)).losses(batch_at(X, Y))
    assert close(losses["ce"], 0.690731), "fixture A"
    newest = torch.cat([torch.zeros(3, 1), X[:, 2:]], 1)
    assert close(losses["auxiliary"], 2 * cross_entropy(newest, torch.tensor([0, 2, 1])))


def learned(method: Any, tasks: int = 2) -> Any:
    for task in split_tasks(small_data(2 * tasks), [2] * tasks):
        train(method, task)
    return method


@pytest.mark.parametrize("train_shared", [True, False])
def test_earlier_last_stages_stay_as_they_are_and_shared_ones_on_request(train_shared: bool) -> None:
    data = small_data()
    method = built(MEMO, data, {"train_shared": train_shared})
    first, second = split_tasks(data, [2, 2])
    start = copied(method.net.backbone.shared)
    train(method, first)
    assert not unchanged(method.net.backbone.shared, start), "the first task trains everything"
    shared, last = copied(method.net.backbone.shared), copied(method.net.backbone.branches[0])
    train(method, second)
    assert unchanged(method.net.backbone.branches[0], last), "weights and statistics"
    assert not unchanged(method.net.backbone.newest, last)
    assert unchanged(method.net.backbone.shared, shared) is not train_shared


def test_shared_stages_are_computed_once() -> None:
    method, calls = learned(built(MEMO, small_data(6)), tasks=3), []
    method.net.backbone.shared.register_forward_hook(lambda *_: calls.append(1))
    assert method.net.features(torch.rand(2, 3, 8, 8)).shape == (2, 3 * 128)
    assert len(calls) == 1


@pytest.mark.parametrize("align", [True, False])
def test_new_rows_get_the_norm_of_old_ones(align: bool) -> None:
    norms = learned(built(MEMO, small_data(), {"align": align})).net.head.weight.detach().norm(dim=1)
    assert bool(torch.isclose(norms[:2].mean(), norms[2:].mean(), rtol=1e-4)) is align


def test_it_has_fewer_parameters_than_der() -> None:
    memo, der = (num_parameters(learned(built(kind, small_data(6)), tasks=3).net.backbone) for kind in (MEMO, DER))
    backbone = make_backbone("small")
    assert isinstance(backbone, StagedExtractor)
    shared, last = backbone.divide()
    assert memo == num_parameters(shared) + 3 * num_parameters(last) < der
    assert der == 3 * (num_parameters(shared) + num_parameters(last))


def test_a_restored_method_has_the_same_scores() -> None:
    method, other = learned(built(MEMO, small_data(6)), tasks=3), built(MEMO, small_data(6))
    other.restore(method.state())
    images = method.memory.samples
    assert torch.equal(method.scores(method.extract(images)), other.scores(other.extract(images)))


@pytest.mark.parametrize("backbone", ["pooled", "resnet32", "medium"])
def test_backbones_that_can_be_divided(backbone: str) -> None:
    record = quick_run("memo", "synthetic:classes=4,train=4,test=2", tasks=2, memory="4", epochs=1, backbone=backbone)
    assert record.finished


def test_a_backbone_that_cannot_be_divided_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upcl.methods.memo.make_backbone", lambda *_: WithoutStages())
    method = MEMO()
    with pytest.raises(UserError, match="'timm:vit' cannot be divided there: use small, medium, pooled"):
        method.start(dataclasses.replace(make_setting(small_data(), MEMO), backbone="timm:vit"))


def test_gradient() -> None:
    method, rows = given_features(MEMO(auxiliary=2.0)), X.clone().requires_grad_()
    check_expanding(method, total(method.losses(batch_at(rows, Y))), rows, Y)
