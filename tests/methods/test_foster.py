"""FOSTER."""

from __future__ import annotations

from typing import Any

import torch

from tests.methods.expanded import copied, cross_entropy, given_features, num_parameters, unchanged
from tests.methods.gradients import check_gradients, distance_of_distributions, linear
from tests.methods.gradients import cross_entropy as by_loop
from tests.methods.scenarios import batch_at, built, first_task, small_data, split_tasks, total, train
from tests.specification import COUNTS, OLD, X, Y, close
from upcl.core.losses import effective_weights
from upcl.methods.foster import FOSTER
from upcl.nets import make_backbone
from upcl.nets.expandable import CompressibleNetwork
from upcl.training.engine import fit


class OldScores:
    """A teacher whose scores are given, and which is asked for those of the first branch's features."""

    def classify(self, features: torch.Tensor) -> torch.Tensor:
        assert torch.equal(features.detach(), X[:, :2])
        return OLD


def boosting(**options: float) -> Any:
    method = given_features(FOSTER(**options), CompressibleNetwork)
    method.teacher = OldScores()
    method.aligning = effective_weights(COUNTS, method.align_beta).double()
    return method


def by_hand(beta: float) -> torch.Tensor:
    """(1 - beta) / (1 - beta^n) of each class, scaled to a mean of 1."""
    weights = [(1 - beta) / (1 - beta**num) for num in COUNTS.tolist()]
    return torch.tensor([len(weights) * weight / sum(weights) for weight in weights], dtype=X.dtype)


def test_boosting_has_three_terms() -> None:
    losses = boosting(auxiliary=0.5, strength=2.0).losses(batch_at(X, Y))
    assert close(losses["ce"], cross_entropy(X / by_hand(0.96), Y))
    newest = torch.cat([torch.zeros(3, 2), X[:, 2:]], 1)  # of all four classes
    assert close(losses["auxiliary"], 0.5 * cross_entropy(newest, Y))
    assert close(losses["kd"], 2 * 0.655644), "KD_2 of fixture A"


def test_scores_of_rare_classes_are_divided_by_more() -> None:
    weights = by_hand(0.96)
    assert weights[0] > 1 > weights[2] and torch.allclose(weights.mean(), torch.ones((), dtype=X.dtype))
    assert torch.allclose(effective_weights(COUNTS, 0.96).double(), weights, atol=1e-6)
    plain = boosting(align_beta=0.0).losses(batch_at(X, Y))["ce"]
    assert close(plain, 0.690731), "fixture A: all weights are 1"


def test_gradient_of_the_distillation() -> None:
    method, rows = boosting(), X.clone().requires_grad_()
    method.losses(batch_at(rows, Y))["kd"].backward()
    wanted = ((X[:, :2] / 2).softmax(1) - (OLD / 2).softmax(1)) / (2 * 3)
    assert rows.grad is not None and torch.allclose(rows.grad[:, :2], wanted, atol=1e-7)
    assert not bool(rows.grad[:, 2:].any())


def test_the_first_task_has_cross_entropy_alone() -> None:
    assert list(first_task(boosting()).losses(batch_at(X, Y))) == ["ce"]


def test_compression_distils_balanced_probabilities() -> None:
    method = boosting()
    method.net.backbone.forward = lambda rows: rows
    boosted = torch.tensor([[0.5, 1.0, 3.0, -1.0], [0.0, 0.0, 2.0, 1.0], [1.0, 0.5, 0.0, 4.0]], dtype=X.dtype)
    method.teacher, method.balancing = (lambda _: boosted), by_hand(0.97)
    wanted = 0.0
    for student, teacher in zip(X, boosted, strict=True):
        shares = [float((value / 2).exp() * w) for value, w in zip(teacher, by_hand(0.97), strict=True)]
        log_sum = float((student / 2).exp().sum().log())
        terms = zip(shares, student, strict=True)
        wanted -= sum(share / sum(shares) * (float(s) / 2 - log_sum) for share, s in terms) / len(X)
    assert close(method.compression_losses(batch_at(X, Y))["kd"], wanted)


def trained(method: Any, stage: Any) -> None:
    fit(method.net, stage, transform=method.setting.transform, device=method.setting.device, seed_path=(0,))


def test_two_backbones_while_a_task_is_learned_and_one_afterwards() -> None:
    data = small_data(train=20)
    method = built(FOSTER, data, memory="10")
    first, second = split_tasks(data, [2, 2])
    train(method, first)
    before, rows = copied(method.net.backbone.branches[0]), method.net.head.weight.detach().clone()

    stages = method.learn(second)
    boost = next(stages)
    assert boost.name == "train" and len(method.net.backbone.branches) == 2
    trained(method, boost)
    assert unchanged(method.net.backbone.branches[0], before), "the old backbone is frozen while boosting"
    boosted, images = method.net(data.train.inputs[:4].float()).detach(), data.train.inputs[:4].float()

    compress = next(stages)
    assert compress.name == "compress" and compress.recipe.weight_decay == 0
    assert len(method.net.backbone.branches) == 1 and unchanged(method.net.backbone.branches[0], before)
    assert torch.equal(method.net.head.weight[:2], rows), "the student starts as the last task's network"
    assert torch.allclose(method.teacher(images), boosted, atol=1e-3, rtol=1e-3), "both backbones are the teacher"
    trained(method, compress)
    assert not unchanged(method.net.backbone.branches[0], before)
    assert list(stages) == []
    assert num_parameters(method.net) == num_parameters(make_backbone("small")) + 4 * (128 + 1)


def test_classes_are_weighted_by_the_images_that_there_are() -> None:
    data = small_data(train=20)
    method = built(FOSTER, data, memory="10")
    first, second = split_tasks(data, [2, 2])
    list(method.learn(first))
    method.begin(second)
    assert method.counts.tolist() == [5, 5, 20, 20]
    for weights, beta in ((method.aligning, 0.96), (method.balancing, 0.97)):
        assert torch.allclose(weights, effective_weights(torch.tensor([5, 5, 20, 20]), beta))


def test_epochs_of_the_compression() -> None:
    data = small_data()
    method = built(FOSTER, data, epochs=None)
    first, second = split_tasks(data, [2, 2])
    assert [stage.recipe.epochs for stage in method.learn(first)] == [200]
    assert [stage.recipe.epochs for stage in method.learn(second)] == [170, 130]


def test_a_restored_method_has_the_same_scores_and_one_backbone() -> None:
    data = small_data(6)
    method, other = built(FOSTER, data), built(FOSTER, data)
    for task in split_tasks(data, [2, 2, 2]):
        train(method, task)
    for _ in range(2):  # into a new network, and into one that has grown
        other.restore(method.state())
        assert other.net.growth == [2, 2, 2] and len(other.net.backbone.branches) == 1
        images = method.memory.samples
        assert torch.equal(method.scores(method.extract(images)), other.scores(other.extract(images)))


def test_gradient_of_boosting() -> None:
    method, rows = boosting(auxiliary=0.5, strength=2.0), X.clone().requires_grad_()
    method.aligning = by_hand(0.96)
    net, plain = method.net, torch.ones(2, dtype=X.dtype)
    scores, newest = linear(rows, net.head), linear(rows[:, 2:], net.auxiliary)
    formula = by_loop(scores / by_hand(0.96), Y) + 0.5 * by_loop(newest, Y)
    formula = formula + 2 * distance_of_distributions(scores[:, :2], OLD, 2.0, plain)
    leaves = [rows, net.head.weight, net.head.bias, net.auxiliary.weight, net.auxiliary.bias]
    check_gradients(total(method.losses(batch_at(rows, Y))), formula, leaves)


def test_gradient_of_the_compression() -> None:
    method, rows = boosting(), X.clone().requires_grad_()
    method.balancing, boosted = by_hand(0.97), X.flip(0) * 1.5
    method.teacher = lambda _: boosted
    head = method.net.head
    formula = distance_of_distributions(linear(rows, head), boosted, 2.0, by_hand(0.97))
    check_gradients(total(method.compression_losses(batch_at(rows, Y))), formula, [rows, head.weight, head.bias])
