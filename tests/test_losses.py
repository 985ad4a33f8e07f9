from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from upcl.losses import (
    cosine_distillation,
    distillation,
    log_prior,
    prototype_contrast,
    supervised_contrast,
    target_margin,
)

from .fixtures import COUNTS, LABELS, OLD, RAW, RAW_TEACHER, X, Y, close, unit

V, TEACHER = unit(RAW), unit(RAW_TEACHER)


def test_cross_entropy_and_distillation_of_fixture_a() -> None:
    assert close(F.cross_entropy(X, Y), 0.690731)
    assert close(distillation(X[:, :2], OLD), 0.655644)
    entropy = distillation(OLD, OLD)
    assert close(entropy, 0.653609)
    assert close(distillation(X[:, :2], OLD) - entropy, 0.002034)
    at_4 = distillation(X[:, :2], OLD, 4.0) - distillation(OLD, OLD, 4.0)
    assert close(16 * at_4, 0.008282)


@pytest.mark.parametrize(
    ("tau", "prior", "literal", "none", "fixed", "columns"),
    [(0.07, 0.002001, 9.346455, 0.001667, 0.006901, 0.001206), (0.5, 0.843300, 1.610932, 0.589757, 0.683370, 0.563574)],
)
def test_prototype_contrast_of_fixture_b(
    tau: float, prior: float, literal: float, none: float, fixed: float, columns: float
) -> None:
    cosines, log_p = V, log_prior(COUNTS).double()
    assert close(prototype_contrast(cosines, LABELS, tau, log_p), prior)
    assert close(prototype_contrast(cosines, LABELS, tau, log_p / tau), literal)
    assert close(prototype_contrast(cosines, LABELS, tau), none)
    assert close(prototype_contrast(cosines, LABELS, tau, target_margin(LABELS, 4, 0.1 / tau)), fixed)
    everywhere = torch.full((4,), -0.1 / tau)
    assert close(prototype_contrast(cosines, LABELS, tau, everywhere), none), "a margin on all columns is a no-op"
    by_column = torch.tensor([-0.2, -0.2, -0.1, -0.1]) / tau
    assert close(prototype_contrast(cosines, LABELS, tau, by_column), columns)


@pytest.mark.parametrize(("tau", "with_self", "without"), [(0.07, 0.560132, 0.008401), (0.5, 0.830307, 0.624583)])
def test_supervised_contrast_of_fixture_b(tau: float, with_self: float, without: float) -> None:
    assert close(supervised_contrast(V, LABELS, tau), with_self)
    assert close(supervised_contrast(V, LABELS, tau, self_pair=False), without)


def test_feature_distillation_of_fixture_b() -> None:
    assert close(cosine_distillation(V, TEACHER), 0.010355)


def test_log_prior_counts_an_absent_class_as_one_image() -> None:
    assert torch.allclose(log_prior(COUNTS).exp(), COUNTS / COUNTS.sum())
    assert torch.equal(log_prior(torch.tensor([0, 5])), log_prior(torch.tensor([1, 5])))
    assert close(log_prior(COUNTS)[0], -3.951244)
    assert close(log_prior(COUNTS)[3], -0.732368)


def naive_contrast(unit_rows: Tensor, labels: Tensor, tau: float, self_pair: bool) -> float:
    terms = []
    num = len(labels)
    for i in range(num):
        others = [j for j in range(num) if self_pair or j != i]
        positives = [j for j in others if labels[j] == labels[i]]
        if not positives:
            continue
        total = sum(math.exp(float(unit_rows[i] @ unit_rows[j]) / tau) for j in others)
        logs = [float(unit_rows[i] @ unit_rows[j]) / tau - math.log(total) for j in positives]
        terms.append(-sum(logs) / len(positives))
    return sum(terms) / len(terms) if terms else 0.0


@given(st.integers(2, 12), st.integers(1, 5), st.integers(2, 6), st.booleans(), st.integers(0, 10**6))
def test_supervised_contrast_equals_a_naive_loop(num: int, classes: int, dim: int, self_pair: bool, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    rows = F.normalize(torch.randn(num, dim, dtype=torch.float64, generator=draw))
    labels = torch.randint(0, classes, (num,), generator=draw)
    value = supervised_contrast(rows, labels, 0.1, self_pair=self_pair)
    assert float(value) == pytest.approx(naive_contrast(rows, labels, 0.1, self_pair), abs=1e-9)


def test_supervised_contrast_of_singletons_has_finite_gradients() -> None:
    rows = torch.randn(3, 4, requires_grad=True)
    supervised_contrast(F.normalize(rows), torch.tensor([0, 1, 2]), 0.07, self_pair=False).backward()
    assert rows.grad is not None
    assert bool(torch.isfinite(rows.grad).all())


@given(st.integers(1, 8), st.integers(1, 6), st.floats(0.5, 5), st.integers(0, 10**6))
def test_distillation_equals_a_naive_loop(num: int, classes: int, temperature: float, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    student, teacher = torch.randn(2, num, classes, dtype=torch.float64, generator=draw)
    total = 0.0
    for s, q in zip(student, teacher, strict=True):
        p = [math.exp(v / temperature) for v in q]
        z = [math.exp(v / temperature) for v in s]
        total -= sum(a / sum(p) * math.log(b / sum(z)) for a, b in zip(p, z, strict=True))
    assert float(distillation(student, teacher, temperature)) == pytest.approx(total / num)
