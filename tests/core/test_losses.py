"""Loss terms, compared with the specification and with naive loops."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.specification import COUNTS, LABELS, OLD, RAW, RAW_TEACHER, X, Y, close, unit
from upcl.core.losses import (
    cosine_distillation,
    decorrelation,
    distillation,
    dot_regression,
    effective_weights,
    focal,
    ldam_margins,
    log_prior,
    margin_ranking,
    neighbourhood,
    one_hot,
    prototype_contrast,
    supervised_contrast,
    view_contrast,
)
from upcl.core.margins import target_margin

V, TEACHER = unit(RAW), unit(RAW_TEACHER)


def test_cross_entropy_and_distillation_of_fixture_a() -> None:
    assert close(F.cross_entropy(X, Y), 0.690731)
    each = F.cross_entropy(X, Y, reduction="none")
    wanted = torch.tensor([0.375419, 0.645320, 1.051456], dtype=torch.float64)
    assert torch.allclose(each, wanted, atol=1e-5)
    assert torch.allclose((-each).exp(), torch.tensor([0.687002, 0.524495, 0.349429], dtype=torch.float64), atol=1e-5)
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


@pytest.mark.parametrize(
    ("tau", "with_self", "without", "over_all"),
    [(0.07, 0.560132, 0.008401, 0.004201), (0.5, 0.830307, 0.624583, 0.312292)],
)
def test_supervised_contrast_of_fixture_b(tau: float, with_self: float, without: float, over_all: float) -> None:
    assert close(supervised_contrast(V, LABELS, tau), with_self)
    assert close(supervised_contrast(V, LABELS, tau, self_pair=False), without)
    assert close(supervised_contrast(V, LABELS, tau, self_pair=False) * 2 / 4, over_all), "two of four have a positive"


def test_feature_distillation_of_fixture_b() -> None:
    assert close(cosine_distillation(V, TEACHER), 0.010355)


def test_log_prior_treats_an_absent_class_as_one_image() -> None:
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


def test_distillation_with_class_weights_is_that_of_weighted_probabilities() -> None:
    student, teacher, weights = X[:, :2], OLD, torch.tensor([3.0, 0.5], dtype=X.dtype)
    shares = (teacher / 2).softmax(1) * weights
    shifted = 2 * (shares / shares.sum(1, keepdim=True)).log()  # logits of these probabilities at T = 2
    assert torch.allclose(distillation(student, teacher, 2.0, weights), distillation(student, shifted, 2.0))
    assert torch.allclose(distillation(student, teacher, 2.0, weights / weights), distillation(student, teacher, 2.0))


def test_focal_without_focus_is_cross_entropy() -> None:
    assert close(focal(X, Y, 0.0), 0.690731)


def test_ldam_margins_of_the_specification() -> None:
    wanted = torch.tensor([0.5, 0.5, 0.223607, 0.223607])
    assert torch.allclose(ldam_margins(COUNTS, 0.5), wanted, atol=1e-5)
    assert torch.allclose(ldam_margins(torch.full((3,), 7), 0.5), torch.full((3,), 0.5)), "equal counts: the largest"


def test_facil_distillation_is_the_same_up_to_its_smoothing() -> None:
    student, teacher = X[:, :2].softmax(1).sqrt(), OLD.softmax(1).sqrt()
    student, teacher = student / student.sum(1, keepdim=True), teacher / teacher.sum(1, keepdim=True)
    student = student + 1e-5 / 2
    smoothed = -(teacher * (student / student.sum(1, keepdim=True)).log()).sum(1).mean()
    assert close(smoothed, 0.655644)
    assert close(distillation(X[:, :2], OLD), float(smoothed))


@given(st.integers(1, 12), st.integers(1, 4), st.integers(2, 6), st.integers(0, 10**6))
def test_decorrelation_equals_a_naive_loop(num: int, classes: int, dim: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    unit_rows = F.normalize(torch.randn(num, dim, dtype=torch.float64, generator=draw))
    labels = torch.randint(0, classes, (num,), generator=draw)
    code, paper, used = 0.0, [], 0
    for k in labels.unique():
        rows = unit_rows[labels == k]
        if len(rows) < 2:
            continue
        rows = rows - rows.mean(0)
        rows = rows / (rows.var(0) + 1e-8).sqrt()
        gram = rows.T @ rows
        code += float(gram[~torch.eye(dim, dtype=torch.bool)].square().mean())
        paper.append(float((gram / (len(rows) - 1)).square().sum() / dim**2))
        used += len(rows)
    assert float(decorrelation(unit_rows, labels, "code")) == pytest.approx(code / max(used, 1), abs=1e-6)
    wanted = sum(paper) / max(len(paper), 1)
    assert float(decorrelation(unit_rows, labels, "paper")) == pytest.approx(wanted, abs=1e-6)


@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(0, 10**6))
def test_margin_ranking_equals_a_naive_loop(num: int, old: int, new: int, rivals: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    cosines = torch.rand(num, old + new, dtype=torch.float64, generator=draw) * 2 - 1
    labels = torch.randint(0, old + new, (num,), generator=draw)
    terms = []
    for row, label in zip(cosines.tolist(), labels.tolist(), strict=True):
        if label < old:
            nearest = sorted(row[old:], reverse=True)[:rivals]
            terms.append([max(0.0, 0.5 - row[label] + value) for value in nearest])
    for reduction in ("mean", "sum"):
        wanted = sum(sum(t) / (len(t) if reduction == "mean" else 1) for t in terms) / max(len(terms), 1)
        found = margin_ranking(cosines, labels, old, rivals=rivals, margin=0.5, reduction=reduction)
        assert float(found) == pytest.approx(wanted)


def test_dot_regression_averages_over_the_counted_images() -> None:
    targets = F.normalize(torch.ones(4, 4, dtype=torch.float64))
    each = ((V * targets).sum(1) - 1).square() / 2
    assert float(dot_regression(V, targets)) == pytest.approx(float(each.mean()))
    counted = torch.tensor([1.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    assert float(dot_regression(V, targets, counted)) == pytest.approx(float(each[[0, 3]].mean()))
    assert float(dot_regression(V, targets, 0 * counted)) == 0


@pytest.mark.parametrize("gamma", [0.3, 2.0])
def test_focal_gradients_are_finite_for_certain_predictions(gamma: float) -> None:
    scores = torch.tensor([[80.0, -80.0], [1.0, 0.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(focal(scores, torch.tensor([0, 0]), gamma), scores)
    assert bool(torch.isfinite(gradient).all())


def test_effective_weights_are_exact_for_large_beta() -> None:
    weights = effective_weights(torch.tensor([1, 10]), 1 - 1e-9)
    assert weights.tolist() == pytest.approx([2 * 10 / 11, 2 * 1 / 11], rel=1e-5)
    assert effective_weights(torch.tensor([3, 9]), 0.0).tolist() == [1.0, 1.0]


def test_one_hot_equals_torch() -> None:
    assert torch.equal(one_hot(LABELS, 4, torch.int64), F.one_hot(LABELS, 4))
    assert one_hot(LABELS, 4, torch.float64).dtype == torch.float64


SCORES = [[1.0, -0.5, 0.2], [0.3, 0.1, 0.9]]  # of a target that is the largest, and of one that is not
TARGETS = [0, 1]


def test_paper_form_of_nca_leaves_out_the_target_and_has_a_margin() -> None:
    each = []
    for row, y in zip(SCORES, TARGETS, strict=True):
        rivals = sum(math.exp(s) for k, s in enumerate(row) if k != y)
        each.append(max(0.0, -math.log(math.exp(row[y] - 0.4) / rivals)))
    scores, labels = torch.tensor(SCORES), torch.tensor(TARGETS)
    assert float(neighbourhood(scores, labels, 0.4, "paper")) == pytest.approx(sum(each) / 2)
    assert float(neighbourhood(scores + torch.tensor([9.0, 0, 0]), torch.tensor([0, 0]), 0.4, "paper")) == 0


def test_code_form_of_nca_has_the_largest_score_in_place_of_the_target() -> None:
    each = []
    for row, y in zip(SCORES, TARGETS, strict=True):
        rivals = sum(math.exp(s) for k, s in enumerate(row) if k != y) + math.exp(max(row))
        each.append(-math.log(math.exp(row[y]) / rivals))
    scores, labels = torch.tensor(SCORES), torch.tensor(TARGETS)
    assert float(neighbourhood(scores, labels, 0.4, "code")) == pytest.approx(sum(each) / 2)
    assert float(neighbourhood(scores[:1], labels[:1], 0.4, "code")) == pytest.approx(
        float(F.cross_entropy(scores[:1], labels[:1]))
    ), "of a target that is the largest, it is cross-entropy"


@pytest.mark.parametrize("form", ["code", "paper"])
def test_nca_of_a_single_class_is_zero_with_a_gradient(form: Any) -> None:
    scores = torch.tensor([[0.5], [-2.0]], requires_grad=True)
    loss = neighbourhood(scores, torch.tensor([0, 0]), 0.6, form)
    (gradient,) = torch.autograd.grad(loss, [scores])
    assert float(loss.detach()) == 0 and not gradient.any()


@given(st.integers(1, 5), st.integers(1, 6), st.floats(0.05, 2.0), st.booleans(), st.integers(0, 99))
def test_view_contrast_equals_a_naive_loop(num: int, dim: int, tau: float, same: bool, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    rows = torch.randn(2 * num, dim, generator=draw, dtype=torch.float64)
    targets = rows if same else torch.randn(2 * num, dim, generator=draw, dtype=torch.float64)
    losses = []
    for i in range(2 * num):
        cosines = [float(F.cosine_similarity(rows[i], target, dim=0)) / tau for target in targets]
        partner = i + num if i < num else i - num
        total = sum(math.exp(value) for j, value in enumerate(cosines) if j != i)
        losses.append(math.log(total) - cosines[partner])
    assert view_contrast(rows, targets, tau).item() == pytest.approx(sum(losses) / len(losses), rel=1e-6, abs=1e-9)


def test_view_contrast_of_a_single_image_has_nothing_to_learn() -> None:
    rows = torch.randn(2, 3, requires_grad=True)
    loss = view_contrast(rows, rows, 0.2)
    loss.backward()
    assert loss.item() == 0 and rows.grad is not None and bool(torch.isfinite(rows.grad).all())
