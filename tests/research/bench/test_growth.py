from __future__ import annotations

from upcl.research.bench.growth import head_bytes, keep_assignment, make_head, saved_bytes, solve_assignment


def test_bytes_of_the_head_grow_linearly() -> None:
    ten, hundred, thousand = (head_bytes(num) for num in (10, 100, 1000))
    assert (thousand - hundred) / 900 == (hundred - ten) / 90


def test_bytes_saved_for_the_gradient_grow_with_the_batch() -> None:
    small, large = (saved_bytes(20, 64, batch_size) for batch_size in (64, 256))
    assert 4 * small <= large <= 16 * small


def test_workloads_solve_and_keep_assignments() -> None:
    assert sorted(solve_assignment(7)().tolist()) == list(range(7))
    keep_assignment(7)()
    assert make_head(7).vectors.shape == (7, 512)
