"""EFC."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.methods.gradients import check_gradients, cross_entropy, linear, mean
from tests.methods.scenarios import (
    GivenTeacher,
    batch_at,
    begun,
    built,
    make_setting,
    second_task,
    small_data,
    split_tasks,
    total,
)
from tests.specification import X
from upcl.core.errors import UserError
from upcl.core.types import Task
from upcl.methods.efc import EFC, feature_matrix, mean_drift
from upcl.nets.elastic import GaussianHead


def test_feature_matrix_is_the_fisher_information_of_the_features() -> None:
    torch.manual_seed(0)
    weight, features = torch.randn(4, 3), torch.randn(5, 3)
    wanted = torch.zeros(3, 3)
    for row in features:
        given = row.clone().requires_grad_()
        log_shares = (weight @ given).log_softmax(0)
        for c in range(4):
            (gradient,) = torch.autograd.grad(log_shares[c], [given], retain_graph=True)
            wanted += log_shares[c].exp().detach() * torch.outer(gradient, gradient) / 5
    assert torch.allclose(feature_matrix(features, features @ weight.T, weight), wanted, atol=1e-5)


def test_mean_drift_by_a_loop() -> None:
    torch.manual_seed(0)
    means, before, move = torch.randn(2, 3), torch.randn(6, 3), torch.randn(6, 3)
    root = torch.randn(3, 3)
    metric = root @ root.T
    near = [[-float((f - m) @ metric @ (f - m)) for f in before] for m in means]
    low, high = min(map(min, near)), max(map(max, near))
    drift = mean_drift(means, before, before + move, metric, sigma=0.5)
    for i in range(2):
        weights = [math.exp((value - low) / (high - low) / (2 * 0.5**2)) for value in near[i]]
        wanted = sum((w * row for w, row in zip(weights, move, strict=True)), torch.zeros(3)) / sum(weights)
        assert torch.allclose(drift[i], wanted, atol=1e-4)
    assert bool(torch.isfinite(mean_drift(means, before, before, torch.zeros(3, 3), 0.2)).all())


def test_first_task_has_four_times_the_classes() -> None:
    data = small_data()
    method = built(EFC, data)
    method.begin(split_tasks(data, [2, 2])[0])
    method.net.eval()
    images, labels = torch.rand(3, 3, 16, 16), torch.tensor([1, 0, 1])
    total = 0.0
    for image, label in zip(images, labels.tolist(), strict=True):
        for turns in range(4):
            features = method.net.features(torch.rot90(image, turns, (1, 2))[None])
            scores = torch.cat([method.net.classify(features), method.net.turned(features)], 1)
            total += float(F.cross_entropy(scores, torch.tensor([label + 2 * turns])).detach()) / 12
    assert float(method.losses(batch_at(images, labels))["ce"].detach()) == pytest.approx(total, rel=1e-4)


def test_terms_of_later_tasks() -> None:
    method = begun(EFC, {"strength": 3.0, "damping": 0.5})
    with torch.no_grad():
        for parameter in method.net.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    method.net.eval()
    images, labels = torch.rand(6, 3, 16, 16), torch.tensor([2, 3, 3, 2, 2, 3])
    losses = method.losses(batch_at(images, labels))
    scores, head = method.net(images), method.net.head
    assert torch.allclose(losses["ce"], F.cross_entropy(scores[:, 2:], labels - 2), rtol=1e-4)
    change = (method.net.features(images) - method.teacher.features(images)).detach()
    metric = 3 * head.importance + 0.5 * torch.eye(128)
    wanted = sum(float(row @ metric @ row) for row in change) / 6
    assert float(losses["change"].detach()) == pytest.approx(wanted, rel=1e-3) and bool(head.importance.any())


def test_replay_is_over_drawn_features_and_new_images_in_proportion_to_the_classes() -> None:
    method = begun(EFC)
    head, drawn = method.net.head, list[Tensor]()

    def draw(labels: Tensor) -> Tensor:
        drawn.append(labels)
        return torch.as_tensor(head.means[labels])

    head.draw = draw
    scores, labels = torch.randn(8, 4), torch.tensor([2, 3, 2, 3, 2, 3, 2, 3])
    value = method.replay(scores, labels)
    assert sorted(drawn[0].tolist()) == [0, 0, 1, 1], "half of the classes are old, each drawn as often"
    rows = torch.cat([head(head.means[drawn[0]]), scores[:4]])
    assert torch.allclose(value, F.cross_entropy(rows, torch.cat([drawn[0], labels[:4]])))


def test_batch_norms_stay_as_they_are_after_the_first_task() -> None:
    data = small_data()
    method = built(EFC, data)
    first, second = split_tasks(data, [2, 2])
    stages = method.learn(first)
    stage = next(stages)
    assert len(stage.params) == len(list(method.net.parameters())) and not stage.frozen
    assert not list(stages)
    method.begin(second)
    stage = method.stage()
    norms = [module for module in method.net.modules() if isinstance(module, nn.BatchNorm2d)]
    assert norms and not {id(p) for norm in norms for p in norm.parameters()} & {id(p) for p in stage.params}
    assert stage.frozen == [method.net.backbone]
    assert stage.recipe.lr == pytest.approx(0.1 * method.recipe.lr), "features would leave the frozen norms' range"
    assert stage.recipe.clip == 1.0 and method.recipe.clip == 0.0


def test_old_means_follow_the_drift_and_nothing_else_of_old_classes_changes() -> None:
    method = begun(EFC)
    head = method.net.head
    means, factors, importance = head.means[:2].clone(), head.factors[:2].clone(), head.importance.clone()
    with torch.no_grad():
        for parameter in method.net.backbone.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    before = torch.cat([method.teacher.features(x) for x, _ in method.setting.batches(method.task.train)])
    drift = mean_drift(means, before, method.extract(method.task.train), importance, 0.2)
    method.consolidate()
    assert torch.allclose(head.means[:2], means + drift, atol=1e-6) and bool(drift.any())
    assert torch.equal(head.factors[:2], factors) and bool(head.factors[2:].any())


def test_images_that_are_not_square_are_refused_unless_they_are_not_rotated() -> None:
    method = EFC()
    method.setting = dataclasses.replace(make_setting(small_data(), EFC), image_shape=(3, 8, 12))
    with pytest.raises(UserError, match="12 x 8 pixels: use --set rotations=false"):
        method.make_net()
    method = EFC(rotations=False)
    method.setting = dataclasses.replace(make_setting(small_data(), EFC), image_shape=(3, 8, 12))
    method.net = method.make_net()
    method.net.grow(2)
    method.task = Task(0, 0, 2, small_data().train)
    assert list(method.losses(batch_at(torch.rand(2, 3, 8, 12), torch.tensor([0, 1])))) == ["ce"]


def test_gradient() -> None:
    torch.manual_seed(0)
    method, labels = second_task(EFC(strength=3.0, damping=0.5), GaussianHead(4)), torch.tensor([3, 2, 2])
    head, before = method.net.head.double(), X + 0.1 * torch.randn(3, 4).double()
    root = torch.randn(4, 4).double()
    head.importance, head.means, head.factors = root @ root.T, torch.randn(4, 4).double(), torch.randn(4, 4, 4)
    method.teacher, rows = GivenTeacher(before), X.clone().requires_grad_()
    torch.manual_seed(1)
    loss = total(method.losses(batch_at(rows, labels)))

    torch.manual_seed(1)
    drawn = torch.randperm(2).tolist()  # half of the classes are old: two features are drawn, and one image is used
    noise = torch.randn(2, 4, 1)
    old = torch.stack([head.means[k] + (head.factors[k] @ part)[:, 0] for k, part in zip(drawn, noise, strict=True)])
    scores, metric = linear(rows, head), 3 * head.importance + 0.5 * torch.eye(4).double()
    formula = cross_entropy(scores[:, 2:], labels - 2) + mean([d @ metric @ d for d in rows - before])
    formula = formula + cross_entropy(torch.cat([linear(old, head), scores[:1]]), [*drawn, 3])
    check_gradients(loss, formula, [rows, head.weight, head.bias])
