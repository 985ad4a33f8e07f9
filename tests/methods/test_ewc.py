"""EWC: its Fisher information, compared with the closed form of a linear classifier."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.methods.gradients import check_anchored
from tests.methods.scenarios import CPU, batch_at, begun, built, on_linear_problem, small_data, split_tasks
from upcl.core.recipes import Recipe
from upcl.methods.ewc import EWC
from upcl.training.engine import fit

torch.manual_seed(0)
FEATURES, LABELS = torch.randn(12, 3), torch.arange(12) % 4


def fisher_of(method: Any) -> Tensor:
    """The Fisher information of the head's weights in a single task."""
    method.consolidate()
    weights: Tensor = method.net.weights["head.weight"]
    return weights


def naive(method: Any, features: Tensor, shares: Tensor) -> Tensor:
    """sum_y share_y (p - e_y)_k^2 f_j^2, averaged over images: the gradient of a linear classifier's cross-entropy."""
    p, total = method.net(features).softmax(1).detach(), torch.zeros(p_shape := method.net.head.weight.shape)
    for i in range(len(features)):
        for y in range(p_shape[0]):
            error = p[i] - torch.eye(p_shape[0])[y]
            total += shares[i, y] * error[:, None].square() * features[i][None].square()
    return total / len(features)


def test_empirical_fisher_information_of_a_linear_classifier() -> None:
    method = on_linear_problem(EWC(fisher="empirical", max_fisher=9.0), FEATURES, LABELS, [4])
    assert torch.allclose(fisher_of(method), naive(method, FEATURES, torch.eye(4)[LABELS]), atol=1e-6)


def test_sampled_fisher_information_tends_to_its_expectation() -> None:
    features, labels = FEATURES[:2].repeat(500, 1), torch.zeros(1000, dtype=torch.int64)
    labels[:4] = torch.arange(4)
    method = on_linear_problem(EWC(num_images=1000, max_fisher=9.0), features, labels, [4])
    shares = method.net(FEATURES[:2]).softmax(1).detach()
    wanted = naive(method, FEATURES[:2], shares)
    assert torch.allclose(fisher_of(method), wanted, rtol=0.25, atol=0.01)


def test_fisher_information_is_that_of_new_classes_alone_and_adds_up() -> None:
    method = on_linear_problem(EWC(max_fisher=9.0, decay=0.5, fisher="empirical"), FEATURES, LABELS, [2, 2])
    first = method.net.weights["head.weight"][:2].clone()
    assert bool((first > 0).all()) and not method.net.weights["head.weight"][2:].any()
    both = fisher_of(method)
    assert torch.allclose(both[:2], 0.5 * first), "the old rows have no gradient"
    assert bool((both[2:] > 0).all())


def test_large_values_are_cut_off_and_few_images_are_enough() -> None:
    method = on_linear_problem(EWC(max_fisher=1e-3, num_images=5), FEATURES, LABELS, [4])
    assert fisher_of(method).max().item() == pytest.approx(1e-3)


def test_gradient_of_the_penalty() -> None:
    method = on_linear_problem(EWC(strength=10.0), FEATURES, LABELS, [2, 2])
    method.net.hold({name: torch.rand_like(value) for name, value in method.net.named_parameters()})
    weight = method.net.head.weight
    with torch.no_grad():
        weight += torch.rand_like(weight)
    (gradient,) = torch.autograd.grad(method.losses(batch_at(FEATURES[2:4], LABELS[2:4]))["penalty"], [weight])
    pull = 10 * method.net.weights["head.weight"] * (weight - method.net.values["head.weight"])
    assert torch.allclose(gradient, pull, atol=1e-6)


def test_a_strong_penalty_keeps_the_parameters_of_old_tasks() -> None:
    distances = {}
    for strength in (0.0, 1e5):  # less than 2 / (rate x largest Fisher information), so that steps are stable
        method = begun(EWC, {"strength": strength})
        stage = dataclasses.replace(method.stage(), recipe=Recipe(epochs=5))
        fit(method.net, stage, transform=method.setting.transform, device=CPU, seed_path=(0,))
        rows = {name: value[:2] if name.startswith("head.") else value for name, value in method.net.named_parameters()}
        squares = [(value - method.net.values[name][: len(value)]).square().sum() for name, value in rows.items()]
        distances[strength] = torch.stack(squares).sum().item()
    assert distances[1e5] < 0.9 * distances[0.0]


def test_a_frozen_backbone_has_no_fisher_information() -> None:
    data = small_data()
    method = built(EWC, data)
    method.net.backbone.requires_grad_(False)
    (task,) = split_tasks(data, [4])
    method.begin(task)
    method.consolidate()
    weights = {name: method.net.weights[name] for name, _ in method.net.named_parameters()}
    assert {name for name, value in weights.items() if value.any()} == {"head.weight", "head.bias"}


def test_gradient() -> None:
    check_anchored(EWC(strength=10.0), factor=5.0)
