from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from upcl.errors import TrainingError, UserError
from upcl.frames import best_assignment, extend_orthonormal, is_best_assignment, orthonormalise


def test_gram_schmidt_of_the_specification() -> None:
    rows = orthonormalise(torch.tensor([[3.0, 4, 0], [1, 1, 1], [0, 2, 5]]), torch.empty(0, 3, dtype=torch.float64))
    wanted = [[0.6, 0.8, 0], [0.156893, -0.117670, 0.980581], [-0.784465, 0.588348, 0.196116]]
    assert torch.allclose(rows, torch.tensor(wanted, dtype=torch.float64), atol=1e-5)


@given(st.integers(1, 40), st.lists(st.integers(1, 12), max_size=6), st.integers(0, 10**6))
def test_frame_is_orthonormal_after_any_growth(spare: int, growth: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    frame = torch.empty(0, sum(growth) + spare)
    for num_new in growth:
        rows = extend_orthonormal(frame, num_new)
        frame = torch.cat([frame, rows])
    assert torch.allclose(frame @ frame.T, torch.eye(len(frame)), atol=2e-6)


def test_a_full_frame_stays_orthonormal_in_float32() -> None:
    frame = torch.empty(0, 128)
    for _ in range(16):
        frame = torch.cat([frame, extend_orthonormal(frame, 8)])
    assert (frame @ frame.T - torch.eye(128)).abs().max() < 1e-6


def test_more_rows_than_dimensions_is_refused_with_a_way_out() -> None:
    with pytest.raises(UserError, match=r"11 orthonormal prototypes do not fit in 10.*projector=11"):
        extend_orthonormal(torch.empty(0, 10), 11)


def test_cosine_and_distance_assignments_can_differ() -> None:
    cosines = torch.tensor([[0.85, 0.5], [0.4, 0.0]])
    assert best_assignment(cosines).tolist() == [1, 0]
    assert best_assignment(-(2 - 2 * cosines).sqrt()).tolist() == [0, 1]


@given(st.integers(1, 6), st.integers(0, 10**6))
def test_assignment_equals_brute_force_and_its_proof_is_sound(num: int, seed: int) -> None:
    similarity = torch.randn(num, num, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    totals = {
        order: sum(float(similarity[i, j]) for i, j in enumerate(order)) for order in itertools.permutations(range(num))
    }
    best = max(totals.values())
    found = tuple(best_assignment(similarity).tolist())
    assert totals[found] == pytest.approx(best)
    for order, total in totals.items():
        if bool(is_best_assignment(similarity, torch.tensor(order))):
            assert total == pytest.approx(best)


def test_proof_holds_where_every_class_has_its_own_nearest() -> None:
    similarity = torch.tensor([[0.1, 0.9], [0.8, 0.2]])
    assert bool(is_best_assignment(similarity, torch.tensor([1, 0])))
    assert not bool(is_best_assignment(similarity, torch.tensor([0, 1])))


def test_features_that_are_not_finite_are_named() -> None:
    with pytest.raises(TrainingError, match="not finite"):
        best_assignment(torch.full((2, 2), float("nan")))
