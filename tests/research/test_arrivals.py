from __future__ import annotations

import numpy as np
import pytest
import torch

from upcl.core.errors import UserError
from upcl.research.arrivals import Arrival, Blurry, Repeat
from upcl.research.scenarios import Scenario


def table(name: str, num_images: list[int], sizes: list[int], seed: int = 1993) -> torch.Tensor:
    """Images of each class (row) that arrive in each task (column)."""
    labels = torch.arange(len(num_images)).repeat_interleave(torch.tensor(num_images))
    arrivals = Scenario.parse(name).arrivals(labels, sizes, seed)
    counted = torch.zeros(len(num_images), len(sizes), dtype=torch.int64)
    for label, task in zip(labels.tolist(), arrivals.tolist(), strict=True):
        counted[label, task] += 1
    return counted


def test_blurry_moves_the_percentage_and_spreads_it_evenly() -> None:
    found = table("blurry:30", [50, 33, 7, 1, 50, 50], [2, 2, 2])
    assert found.sum(1).tolist() == [50, 33, 7, 1, 50, 50]
    assert found[:, 0].tolist() == [35, 24, 0, 0, 0, 0], "70 % of 50; 33 - int(9.9)"
    assert found[2].tolist() == [0, 5, 2] and found[3].tolist() == [0, 1, 0]
    assert found[4:, 2].tolist() == [50, 50], "after the last task there is none"
    assert int(found[0, 1:].max() - found[0, 1:].min()) == 1
    assert table("blurry:29", [100, 100], [1, 1])[0].tolist() == [71, 29], "not lost to the rounding of floats"


def test_remainders_do_not_always_go_to_the_same_task() -> None:
    found = table("blurry:10", [10] * 40, [20, 10, 10])
    assert found[:20, 0].tolist() == [9] * 20
    assert 4 <= int(found[:20, 1].sum()) <= 16


def test_some_classes_may_stay_disjoint() -> None:
    found = table("blurry:50:50", [10] * 12, [4, 4, 4])
    stays = sum(row.count_nonzero().item() == 1 for row in found[:8])
    counted = Blurry(50, 50).counts([10] * 12, [2] * 12, np.random.RandomState(0))
    assert sum(parts.tolist() == [10, 0, 0] for parts in counted) == 6
    assert 2 <= stays <= 6, "6 of 12 classes, some of them in the last task"


def test_repeated_classes_divide_their_images_evenly_over_their_tasks() -> None:
    for row, own in zip(table("repeat:50", [41] * 30, [10, 10, 10]), [0] * 10 + [1] * 10 + [2] * 10, strict=True):
        present = row[row > 0]
        assert int(row[:own].sum()) == 0 and int(row[own]) > 0 and int(row.sum()) == 41
        assert int(present.max() - present.min()) <= 1
    assert table("repeat:100", [10, 2, 9], [1, 1, 1]).tolist() == [[4, 3, 3], [0, 1, 1], [0, 0, 9]]
    few = Repeat(100).counts([1, 2], [3, 3], np.random.RandomState(0))
    assert [parts.tolist() for parts in few] == [[1, 0, 0, 0], [1, 1, 0, 0]], "the own task is served first"
    came_back = (table("repeat:20", [40] * 500, [250, 250])[:250, 1] > 0).float().mean()
    assert 0.12 < float(came_back) < 0.28


@pytest.mark.parametrize("arrival", [Blurry(), Blurry(99), Blurry(37.5, 40), Repeat(), Repeat(1), Repeat(100)], ids=str)
def test_no_image_is_lost_whatever_the_numbers(arrival: Arrival) -> None:
    rng = np.random.RandomState(3)
    images, later = rng.randint(1, 30, 200).tolist(), rng.randint(0, 7, 200).tolist()
    for parts, num_images, num_later in zip(arrival.counts(images, later, rng), images, later, strict=True):
        assert parts.shape == (1 + num_later,) and int(parts.sum()) == num_images
        assert int(parts[0]) > 0 and int(parts.min()) >= 0


def test_percentages_out_of_range_are_refused() -> None:
    for share, disjoint in ((0, 0), (100, 0), (-1, 0), (10, 100), (10, -1)):
        with pytest.raises(UserError, match="M must be above 0 and below 100"):
            Blurry(share, disjoint)
    for probability in (0, 100.5, -1):
        with pytest.raises(UserError, match="P must be above 0 and at most 100"):
            Repeat(probability)
