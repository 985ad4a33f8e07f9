"""Optimal assignment and optimal transport."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from upcl.core.errors import TrainingError
from upcl.core.matching import is_optimal_assignment, optimal_assignment, sinkhorn


def test_cosine_and_distance_assignments_can_differ() -> None:
    cosines = torch.tensor([[0.85, 0.5], [0.4, 0.0]])
    assert optimal_assignment(cosines).tolist() == [1, 0]
    distances = (2 - 2 * cosines).sqrt()
    assert optimal_assignment(-distances).tolist() == [0, 1]
    assert float(cosines[0, 1] + cosines[1, 0]) == pytest.approx(0.9)
    assert float(cosines.trace()) == pytest.approx(0.85)
    assert float(distances.trace()) == pytest.approx(1.961936, abs=1e-5)
    assert float(distances[0, 1] + distances[1, 0]) == pytest.approx(2.095445, abs=1e-5)


@given(st.integers(1, 6), st.integers(0, 10**6))
def test_assignment_equals_brute_force_and_its_proof_is_sound(num: int, seed: int) -> None:
    similarity = torch.randn(num, num, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    totals = {
        order: sum(float(similarity[i, j]) for i, j in enumerate(order)) for order in itertools.permutations(range(num))
    }
    best = max(totals.values())
    found = tuple(optimal_assignment(similarity).tolist())
    assert totals[found] == pytest.approx(best)
    for order, total in totals.items():
        if bool(is_optimal_assignment(similarity, torch.tensor(order))):
            assert total == pytest.approx(best)


def test_proof_holds_if_every_class_has_its_own_nearest() -> None:
    similarity = torch.tensor([[0.1, 0.9], [0.8, 0.2]])
    assert bool(is_optimal_assignment(similarity, torch.tensor([1, 0])))
    assert not bool(is_optimal_assignment(similarity, torch.tensor([0, 1])))


def test_similarities_that_are_not_finite_are_an_error() -> None:
    with pytest.raises(TrainingError, match="not finite"):
        optimal_assignment(torch.full((2, 2), float("nan")))


def test_sinkhorn_plan_of_the_specification() -> None:
    cost = torch.tensor([[0.607318, 0.832034, 1.664067], [0.832034, 0.607318, 0.607318]], dtype=torch.float64)
    wanted = torch.tensor([[0.256226, 0.185935, 0.057839], [0.077107, 0.147398, 0.275495]], dtype=torch.float64)
    assert torch.allclose(sinkhorn(cost, 0.464), wanted, atol=1e-5)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6))
def test_sinkhorn_keeps_both_marginals(num: int, other: int, seed: int) -> None:
    cost = torch.rand(num, other, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    plan = sinkhorn(cost, 0.464)
    assert torch.allclose(plan.sum(1), torch.full((num,), 1 / num, dtype=torch.float64), atol=1e-6)
    assert torch.allclose(plan.sum(0), torch.full((other,), 1 / other, dtype=torch.float64), atol=1e-6)
