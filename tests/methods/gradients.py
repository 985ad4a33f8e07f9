"""Losses and their gradients, compared with formulas that are written as loops, in double precision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from tests.methods.scenarios import batch_at, on_linear_problem, total


def check_gradients(loss: Tensor, formula: Tensor, leaves: Iterable[Tensor], rtol: float = 1e-8) -> None:
    """The loss has the value of the formula, and the same gradient, which is not zero, with respect to every leaf."""
    leaves = list(leaves)
    assert torch.allclose(loss, formula, rtol=rtol), f"{loss.item()}, not {formula.item()}"
    found = torch.autograd.grad(loss, leaves, retain_graph=True)
    wanted = torch.autograd.grad(formula, leaves, retain_graph=True)
    for leaf, gradient, expected in zip(leaves, found, wanted, strict=True):
        assert gradient.dtype == torch.float64 and bool(expected.any())
        assert torch.allclose(gradient, expected, rtol=rtol, atol=rtol), f"gradient of {tuple(leaf.shape)}"


def mean(values: Sequence[Tensor]) -> Tensor:
    return sum(values, torch.zeros((), dtype=torch.float64)) / len(values)


def cross_entropy(scores: Tensor, labels: Sequence[int] | Tensor) -> Tensor:
    """The mean of -log(exp s_y / sum_k exp s_k)."""
    return mean([-(row[int(y)].exp() / sum(s.exp() for s in row)).log() for row, y in zip(scores, labels, strict=True)])


def distance_of_distributions(student: Tensor, teacher: Tensor, temperature: float, weights: Tensor) -> Tensor:
    """The mean of -sum_k q_k log p_k at a temperature, where q_k is in proportion to w_k exp(t_k / T)."""
    terms = []
    for s, t in zip(student / temperature, teacher / temperature, strict=True):
        share = weights * t.exp()
        terms.append(-sum(q * (p.exp() / s.exp().sum()).log() for q, p in zip(share / share.sum(), s, strict=True)))
    return mean(terms)


def linear(rows: Tensor, layer: Any) -> Tensor:
    """Scores w_k . f + b_k, one at a time."""
    parts = list(zip(layer.weight, layer.bias, strict=True))
    return torch.stack([torch.stack([(w * row).sum() + b for w, b in parts]) for row in rows])


def check_anchored(method: Any, factor: float) -> None:
    """`L = CE(z_new, y) + factor sum_i w_i (theta_i - theta*_i)^2` in the second task of two, with a linear head."""
    torch.manual_seed(0)
    features, labels = torch.randn(12, 3).double(), torch.arange(12) % 4
    on_linear_problem(method, features.float(), labels, [2, 2])
    method.net.double().features = lambda rows: rows  # keeps float64
    params = dict(method.net.named_parameters())
    method.net.hold({name: torch.rand_like(value) for name, value in params.items()})
    with torch.no_grad():
        for value in params.values():
            value += torch.randn_like(value)
    new = labels >= 2
    found = total(method.losses(batch_at(features[new], labels[new])))
    pulls = []
    for name, value in params.items():
        held = zip(value.flatten(), method.net.values[name].flatten(), method.net.weights[name].flatten(), strict=True)
        pulls += [w * (now - before) ** 2 for now, before, w in held]
    formula = cross_entropy(linear(features[new], method.net.head)[:, 2:], labels[new] - 2) + factor * sum(pulls)
    check_gradients(found, formula, params.values())


def check_expanding(method: Any, loss: Tensor, rows: Tensor, labels: Tensor) -> None:
    """`L = CE(z, y) + lambda_a CE(a, y')`: all old classes are class 0 of the second head on the newest features."""
    net = method.net
    newest = linear(rows[:, -2:], net.auxiliary)
    targets = [0 if y < 2 else y - 1 for y in labels.tolist()]
    formula = cross_entropy(linear(rows, net.head), labels) + method.auxiliary * cross_entropy(newest, targets)
    heads = (net.head.weight, net.head.bias, net.auxiliary.weight, net.auxiliary.bias)
    check_gradients(loss, formula, [rows, *heads])
