"""Metrics, compared with the specification."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from upcl.core import metrics
from upcl.core.budget import Budget


def test_curve_of_the_specification() -> None:
    assert metrics.average_accuracy([90, 80, 70, 66]) == 76.5


RATIOS = {  # images per class, memory, classes per task: ratio of each task
    (500, 2000, 20): [1, 5, 10, 15.15, 20],
    (500, 500, 20): [1, 20, 41.67, 62.5, 83.33],
    (500, 2000, 10): [1, 2.5, 5, 7.58, 10, 12.5, 15.15, 17.86, 20, 22.73],
    (500, 1000, 10): [1, 5, 10, 15.15, 20, 25, 31.25, 35.71, 41.67, 45.45],
    (500, 500, 10): [1, 10, 20, 31.25, 41.67, 50, 62.5, 71.43, 83.33, 100],
}


@pytest.mark.parametrize("setting", RATIOS, ids=str)
def test_imbalance_ratios_of_the_specification(setting: tuple[int, int, int]) -> None:
    images, memory, step = setting
    ratios = []
    for num_old in range(0, step * len(RATIOS[setting]), step):
        kept = Budget(memory, "images", "floor").quotas([images] * num_old, 1)
        ratios.append(metrics.imbalance_ratio(torch.tensor([*kept, *[images] * step])))
    assert ratios == pytest.approx(RATIOS[setting], abs=0.005)


def test_imbalance_ratios_of_the_longer_streams() -> None:
    def ratio(num_old: int, images: int = 500, memory: int = 2000) -> float | None:
        return metrics.imbalance_ratio(torch.tensor([memory // num_old] * num_old + [images] * 5))

    first = [ratio(n) for n in (5, 10, 15, 20, 25, 90, 95)]
    assert first == pytest.approx([1.25, 2.5, 3.76, 5, 6.25, 22.73, 23.81], abs=0.005)
    assert [ratio(n) for n in (175, 180, 185, 190, 195)] == pytest.approx([45.45, 45.45, 50, 50, 50], abs=0.005)


@pytest.mark.parametrize(
    ("matrix", "forgetting"), [([[90], [70, 85], [60, 65, 80]], 25.0), ([[60], [70, 85], [75, 65, 80]], 7.5)]
)
def test_forgetting_of_the_specification(matrix: list[list[float]], forgetting: float) -> None:
    assert metrics.forgetting(matrix) == forgetting


def test_forward_transfer() -> None:
    assert metrics.forward_transfer([[90], [70, 85], [60, 65, 80]]) == 0, "no class is known before its task"
    complete = [[90, 30, 20], [70, 85, 15], [60, 65, 80]]
    assert metrics.forward_transfer(complete, untrained=[12, 10, 5]) == ((30 - 10) + (15 - 5)) / 2
    assert metrics.forward_transfer([[90.0]]) is None


def test_backward_transfer() -> None:
    assert metrics.backward_transfer([[90], [70, 85], [60, 65, 80]]) == (-30 - 20) / 2
    assert metrics.backward_transfer([[60], [70, 85], [75, 65, 80]]) == (15 - 20) / 2


def test_a_single_task_has_no_forgetting() -> None:
    assert metrics.forgetting([[90.0]]) is None
    assert metrics.backward_transfer([[90.0]]) is None


@pytest.mark.parametrize("sizes", [[20] * 5, [5] * 20, [50, 10, 10, 10, 10, 10], [1] * 100])
def test_accuracy_by_task_follows_the_task_sizes(sizes: list[int]) -> None:
    draw = torch.Generator().manual_seed(0)
    totals = torch.randint(1, 50, (100,), generator=draw)
    hits = (torch.rand(100, generator=draw) * totals).long()
    row, start = metrics.accuracy_by_task(hits, totals, sizes), 0
    for value, size in zip(row, sizes, strict=True):
        mine = range(start, start + size)
        assert value == pytest.approx(100 * sum(int(hits[k]) for k in mine) / sum(int(totals[k]) for k in mine))
        start += size


def test_accuracy_weighs_images_not_classes() -> None:
    assert metrics.accuracy(torch.tensor([10, 0]), torch.tensor([10, 30])) == 25.0


@pytest.mark.parametrize(
    ("memory", "num_old", "ratio"),
    [(2000, 10, 2.5), (2000, 30, 7.58), (2000, 90, 22.73), (1000, 60, 31.25), (500, 90, 100.0), (500, 20, 20.0)],
)
def test_imbalance_ratio_of_the_specification(memory: int, num_old: int, ratio: float) -> None:
    counts = torch.tensor([memory // num_old] * num_old + [500] * 10)
    assert metrics.imbalance_ratio(counts) == pytest.approx(ratio, abs=0.005)


def test_imbalance_ratio_is_undefined_for_an_absent_class() -> None:
    assert metrics.imbalance_ratio(torch.tensor([0, 5])) is None
    assert metrics.imbalance_ratio(torch.tensor([5, 5])) == 1


def test_accuracy_by_class_is_undefined_without_images() -> None:
    assert metrics.accuracy_by_class(torch.tensor([3, 0, 0]), torch.tensor([4, 2, 0])) == [75.0, 0.0, None]


MATRIX = st.lists(st.floats(0, 100), min_size=36, max_size=36)


@given(st.integers(1, 8), MATRIX, MATRIX)
def test_intransigence_equals_a_naive_loop(num: int, learned: list[float], best: list[float]) -> None:
    matrix = [learned[row * (row + 1) // 2 :][: row + 1] for row in range(num)]
    reference = [best[row * (row + 1) // 2 :][: row + 1] for row in range(8)]
    total = 0.0
    for j in range(num):
        total += reference[j][j] - matrix[j][j]
    assert metrics.intransigence(matrix, reference) == pytest.approx(total / num, abs=1e-9)


def test_intransigence_looks_at_new_tasks_only() -> None:
    assert metrics.intransigence([[80], [0, 70]], [[90], [100, 90]]) == (10 + 20) / 2
    assert metrics.intransigence([[95], [0, 95]], [[90], [100, 90]]) == -5, (
        "new classes are learned better than jointly"
    )


def test_memory_area_is_the_mean_of_a_finely_sampled_curve() -> None:
    memory, accuracies = [7.6, 12.4, 16.0, 19.9, 23.5], [50.1, 55.0, 54.2, 58.8, 60.0]
    for start, end in ((7.6, 23.5), (8.0, 20.0), (12.4, 12.5)):
        steps = 20_000
        total = 0.0
        for k in range(steps):
            total += float(np.interp(start + (end - start) * (k + 0.5) / steps, memory, accuracies))
        assert metrics.memory_area(memory, accuracies, start, end) == pytest.approx(total / steps, abs=1e-4)


def test_memory_area_averages_seeds_in_any_order() -> None:
    assert metrics.memory_area([30, 10, 10, 30], [70, 40, 60, 90], 10, 30) == 65


@pytest.mark.parametrize(("start", "end"), [(5, 20), (10, 35), (20, 20), (25, 20)])
def test_memory_area_needs_sizes_on_both_ends(start: float, end: float) -> None:
    assert metrics.memory_area([10, 30], [50, 60], start, end) is None


def test_memory_area_needs_two_sizes() -> None:
    assert metrics.memory_area([10, 10], [50, 60], 10, 10) is None
