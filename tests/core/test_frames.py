"""Frames on the unit sphere."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from upcl.core import frames
from upcl.core.errors import UserError
from upcl.core.frames import (
    energy,
    extend_gaussian,
    extend_nonnegative,
    extend_orthonormal,
    extend_uniform,
    largest_cosine,
    minimum_energy,
    orthonormalise,
    simplex,
    simplex_in,
    welch_bound,
)


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


def test_more_orthonormal_rows_than_dimensions_are_an_error() -> None:
    with pytest.raises(UserError, match="11 orthonormal rows do not fit in 10"):
        extend_orthonormal(torch.empty(0, 10), 11)


@pytest.mark.parametrize("num", [10, 100, 200, 500, 1000])
def test_simplex_and_orthonormal_frames_have_exact_cosines(num: int) -> None:
    torch.manual_seed(num)
    assert 1 - largest_cosine(simplex(num, 1024)) == pytest.approx(1 + 1 / (num - 1), abs=1e-5)
    assert 1 - largest_cosine(extend_orthonormal(torch.empty(0, 1024), num)) == pytest.approx(1, abs=1e-5)


def test_simplex_of_the_specification() -> None:
    corners = simplex_in(torch.eye(3, dtype=torch.float64))
    wanted = torch.tensor([[0.816497, -0.408248, -0.408248]], dtype=torch.float64)
    assert torch.allclose(corners, torch.cat([wanted, wanted.roll(1, 1), wanted.roll(2, 1)]), atol=1e-5)
    torch.manual_seed(0)
    four = simplex(4, 8)
    off = (four @ four.T)[~torch.eye(4, dtype=torch.bool)]
    assert torch.allclose(off, torch.full((12,), -0.333333), atol=1e-5)
    assert simplex(1, 3).shape == (1, 3)
    assert 1 - largest_cosine(simplex(5, 4)) == pytest.approx(1.25, abs=1e-5), "one more than the dimensions fits"
    with pytest.raises(UserError, match="does not fit"):
        simplex(6, 4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("num", "dim"), [(3, 2), (4, 3), (2, 5), (1, 3)])
def test_minimum_energy_converges_by_default_in_small_spaces(num: int, dim: int, seed: int) -> None:
    torch.manual_seed(seed)
    frame = minimum_energy(num, dim)
    assert frame.shape == (num, dim)
    if num > 1:
        assert largest_cosine(frame) == pytest.approx(-1 / (num - 1), abs=0.02)


@pytest.mark.parametrize(
    ("num", "dim", "power", "distance", "wanted"), [(4, 3, 2, 1.333333, 0.375), (3, 2, 1, 1.5, 0.577350)]
)
def test_minimum_energy_reaches_the_simplex(num: int, dim: int, power: float, distance: float, wanted: float) -> None:
    torch.manual_seed(0)
    frame = minimum_energy(num, dim, power=power, steps=1000).double()
    assert 1 - largest_cosine(frame) == pytest.approx(distance, abs=1e-5)
    assert energy(frame, power) == pytest.approx(wanted, abs=1e-5)


def test_energy_of_power_zero_is_the_logarithm() -> None:
    frame = torch.eye(3)
    assert energy(frame, 0) == pytest.approx(-0.5 * 0.693147, abs=1e-5)
    torch.manual_seed(0)
    assert 1 - largest_cosine(minimum_energy(4, 3, power=0.0, steps=1000)) == pytest.approx(4 / 3, abs=1e-3)


@pytest.mark.parametrize(("num", "distance"), [(10, 1.1109), (100, 1.0101), (200, 1.0050)])
def test_averaged_energy_of_the_uniformity_figure(num: int, distance: float) -> None:
    torch.manual_seed(0)
    assert 1 - largest_cosine(minimum_energy(num, 1024, averaged=True)) == pytest.approx(distance, abs=5e-4)


@pytest.mark.parametrize(
    ("num", "low", "mean", "high"), [(10, 0.883, 0.920, 0.946), (100, 0.862, 0.885, 0.899), (200, 0.830, 0.869, 0.889)]
)
def test_gaussian_rows_are_less_uniform(num: int, low: float, mean: float, high: float) -> None:
    torch.manual_seed(0)
    distances = [1 - largest_cosine(extend_gaussian(torch.empty(0, 1024), num)) for _ in range(20)]
    assert sum(distances) / 20 == pytest.approx(mean, abs=0.012)
    assert low - 0.03 < min(distances) <= max(distances) < high + 0.03


@pytest.mark.parametrize("steps", [[100], [40, 60], [1000], [200] * 5])
def test_uniform_rows_continue_beyond_the_dimensions(steps: list[int]) -> None:
    torch.manual_seed(0)
    frame = torch.empty(0, 64)
    for num_new in steps:
        rows = extend_uniform(frame, num_new)
        grown = torch.cat([frame, rows])
        assert torch.equal(grown[: len(frame)], frame)
        frame = grown
    assert torch.allclose(frame.norm(dim=1), torch.ones(len(frame)), atol=1e-5)
    assert largest_cosine(frame) <= (1e-6 if len(frame) <= 128 else 0.22)


def test_one_pass_in_float32_makes_duplicates_beyond_the_dimensions() -> None:
    """The official generator does this for C > d; ours does not."""
    torch.manual_seed(0)
    rows = torch.empty(0, 64)
    for _ in range(100):
        row = F.normalize(torch.randn(64), dim=0)
        row = row - rows.T @ (rows @ row)
        rows = torch.cat([rows, F.normalize(row, dim=0)[None]])
    cosines = (rows @ rows.T).fill_diagonal_(0)
    assert bool((cosines[64:].abs().amax(1) > 0.5).all())
    assert largest_cosine(extend_uniform(torch.empty(0, 64), 100)) < 1e-6


def test_welch_bound() -> None:
    assert welch_bound(64, 64) == 0
    assert welch_bound(1000, 64) == pytest.approx(0.120994, abs=1e-5)


@pytest.mark.parametrize(("dim", "owned", "sizes"), [(64, 2, (10, 10, 12)), (16, 1, (5, 11)), (16, 4, (4,))])
def test_nonnegative_rows_are_orthonormal_while_coordinates_last(dim: int, owned: int, sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    frame = torch.empty(0, dim)
    for size in sizes:
        frame = torch.cat([frame, extend_nonnegative(frame, size, owned)])
    assert torch.allclose(frame @ frame.T, torch.eye(len(frame)), atol=1e-6)
    assert bool((frame >= 0).all())


def test_nonnegative_rows_beyond_the_coordinates_overlap_little() -> None:
    torch.manual_seed(0)
    frame = extend_nonnegative(torch.empty(0, 64), 100)
    assert bool((frame >= 0).all())
    assert torch.allclose(frame.norm(dim=1), torch.ones(100))
    assert largest_cosine(frame[:32]) == pytest.approx(0, abs=1e-6)
    assert largest_cosine(frame) < 0.6


# many rows


def test_repulsion_of_many_rows_takes_fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_REPELLED", 1600)
    exact, pairs = frames._repulsion, []

    def counted(fixed: torch.Tensor, rows: torch.Tensor, beta: float) -> tuple[float, torch.Tensor]:
        pairs.append(len(rows) * (len(fixed) + len(rows)))
        return exact(fixed, rows, beta)

    monkeypatch.setattr(frames, "_repulsion", counted)
    for num_new, steps in ((40, 200), (80, 50), (160, 20)):
        pairs.clear()
        rows = frames.repel(torch.empty(0, 8), num_new)
        assert pairs == [num_new**2] * steps
        assert largest_cosine(rows) < largest_cosine(extend_gaussian(torch.empty(0, 8), num_new))


def test_many_rows_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed, rows = (extend_gaussian(torch.empty(0, 8, dtype=torch.float64), num) for num in (5, 30))
    whole = *frames._repulsion(fixed, rows, 10.0), torch.tensor(largest_cosine(rows))
    monkeypatch.setattr(frames, "PART", 7)
    parts = *frames._repulsion(fixed, rows, 10.0), torch.tensor(largest_cosine(rows))
    for found, expected in zip(parts, whole, strict=True):
        assert torch.allclose(torch.as_tensor(found), torch.as_tensor(expected), rtol=1e-12)


def test_rows_that_are_not_negative_are_drawn_less_often_if_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frames, "MANY_ROWS", 10)
    draw, draws = torch.rand, []

    def counted(num: int, dim: int) -> torch.Tensor:
        draws.append(num)
        return draw(num, dim)

    monkeypatch.setattr(torch, "rand", counted)
    rows = extend_nonnegative(torch.empty(0, 8), 90)
    assert draws == [500] * 7 + [50_000 // i**2 for i in range(11, 71)] + [10] * 19
    assert bool((rows >= 0).all()) and torch.allclose(rows.norm(dim=1), torch.ones(90))
