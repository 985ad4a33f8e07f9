"""The hold-out split."""

import math

import numpy as np
import pytest
import torch

from upcl.core.splits import hold_out


def slow_hold_out(labels: list[str], groups: list[str], percent: int, seed: int) -> list[bool]:
    """The split of folders of images before it was shared: per class, at least one distinct image."""
    draw = np.random.default_rng(seed)
    held: dict[str, set[str]] = {}
    for label in sorted(set(labels)):
        distinct = list(dict.fromkeys(g for g, other in zip(groups, labels, strict=True) if other == label))
        chosen = draw.permutation(len(distinct))[: max(1, len(distinct) * percent // 100)]
        held[label] = {distinct[k] for k in chosen}
    return [group in held[label] for label, group in zip(labels, groups, strict=True)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("percent", [1, 7, 10, 29, 33, 57, 99])
def test_equals_the_slow_reference_on_integer_percentages(percent: int, seed: int) -> None:
    rng = np.random.RandomState(seed)
    labels = [str(k) for k in rng.choice(["b", "a", "d", "c"], 300)]
    groups = [f"{k}" for k in rng.randint(0, 120, 300)]  # repeated images, some in several classes
    mask = hold_out(labels, percent / 100, seed, groups=groups, min_per_class=1)
    assert mask.tolist() == slow_hold_out(labels, groups, percent, seed)


def test_integer_percentages_are_exact_for_every_class_size() -> None:
    for size in range(1, 1001):
        for percent in range(1, 100):
            assert math.floor(size * (percent / 100) + 1e-9) == size * percent // 100
    assert hold_out([0] * 100, 0.29, 0).sum() == 29


def test_copies_of_an_image_stay_together() -> None:
    groups = ["a", "b", "a", "c", "b", "a", "d"]
    mask = hold_out([0] * 7, 0.5, 3, groups=groups)
    held = {group for group, out in zip(groups, mask, strict=True) if out}
    kept = {group for group, out in zip(groups, mask, strict=True) if not out}
    assert len(held) == 2 and not held & kept


def test_equal_groups_of_different_classes_are_independent() -> None:
    mask = hold_out(["x", "y"], 0.0, 0, groups=["same", "same"], min_per_class=1)
    assert mask.tolist() == [True, True]


def test_small_classes_give_up_nothing_unless_required() -> None:
    assert hold_out(["rare", "rare"], 0.2, 0).sum() == 0
    assert hold_out(["rare", "rare"], 0.2, 0, min_per_class=1).sum() == 1


def test_lists_arrays_and_tensors_give_the_same_split() -> None:
    labels = [k % 3 for k in range(30)]
    expected = hold_out(labels, 0.3, 5).tolist()
    assert sum(expected) == 9
    assert hold_out(np.array(labels), 0.3, 5).tolist() == expected
    assert hold_out(torch.tensor(labels), 0.3, 5).tolist() == expected


def test_seed_decides_and_global_generators_do_not() -> None:
    labels = [k % 3 for k in range(60)]
    once = hold_out(labels, 0.3, 5)
    np.random.seed(9)
    assert (hold_out(labels, 0.3, 5) == once).all()
    assert (hold_out(labels, 0.3, 6) != once).any()


def test_no_samples() -> None:
    assert hold_out([], 0.3, 0).tolist() == []
