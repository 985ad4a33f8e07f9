from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.memory import Budget, Memory, class_means, closest, divide_budget, herding, nearest_mean_scores
from upcl.core.types import Samples, Task

ROWS = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0], [-0.6, 0.8]])


def test_herding_of_the_specification() -> None:
    assert herding(ROWS, 3).tolist() == [2, 3, 0]
    steps = [
        [0.905097, 0.441814, 0.288444, 0.509117, 0.973242],
        [0.501199, 0.345254, 0.266833, 0.393954],
        [0.177889, 0.192296, 0.425415],
    ]
    rest, total = [0, 1, 2, 3, 4], torch.zeros(2)
    for k, (pick, wanted) in enumerate(zip([2, 3, 0], steps, strict=True), start=1):
        distances = [float((ROWS.mean(0) - (total + ROWS[i]) / k).norm()) for i in rest]
        assert distances == pytest.approx(wanted, abs=1e-5)
        total = total + ROWS[pick]
        rest.remove(pick)
    means = class_means(ROWS[[2, 3, 0]], torch.zeros(3, dtype=torch.int64), 1)
    assert torch.allclose(means, torch.tensor([[0.664364, 0.747409]]), atol=1e-5)


def test_nearest_mean_of_the_specification() -> None:
    means = torch.tensor([[0.664364, 0.747409], [1.0, 0.0]])
    scores = nearest_mean_scores(torch.tensor([[3.0, 1.0]]), means)
    assert torch.allclose(scores, -torch.tensor([[0.266755, 0.102633]]), atol=1e-5)


def test_a_class_without_exemplars_is_never_the_nearest() -> None:
    means = class_means(ROWS[:2], torch.tensor([0, 2]), 3)
    scores = nearest_mean_scores(torch.randn(50, 2), means)
    assert not bool((scores.argmax(1) == 1).any())


def naive_herd(rows: Tensor, num: int) -> list[int]:
    mean, picked = rows.mean(0), list[int]()
    for k in range(1, min(num, len(rows)) + 1):
        rest = [i for i in range(len(rows)) if i not in picked]
        total = sum((rows[i] for i in picked), torch.zeros_like(mean))
        picked.append(min(rest, key=lambda i: round(float((mean - (total + rows[i]) / k).norm()), 12)))
    return picked


@given(st.integers(1, 25), st.integers(1, 6), st.integers(1, 30), st.integers(0, 10**6))
def test_herding_equals_a_naive_loop(num: int, dim: int, picks: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    rows = F.normalize(torch.randn(num, dim + 1, dtype=torch.float64, generator=draw))
    assert herding(rows, picks).tolist() == naive_herd(rows, picks)


def test_herding_ties_go_to_the_lowest_index() -> None:
    assert herding(torch.ones(4, 2), 4).tolist() == [0, 1, 2, 3]


def test_closest_takes_the_nearest_to_the_mean_first() -> None:
    assert closest(ROWS, 2).tolist() == [2, 1]


@given(st.integers(0, 200), st.lists(st.integers(0, 30), max_size=12))
def test_sharing_is_exact_and_even(total: int, available: list[int]) -> None:
    quotas = divide_budget(total, available)
    assert sum(quotas) == min(total, sum(available)), "nothing is lost and nothing exceeded"
    assert all(0 <= quota <= images for quota, images in zip(quotas, available, strict=True))
    unsated = [quota for quota, images in zip(quotas, available, strict=True) if quota < images]
    if unsated:
        assert max(unsated) - min(unsated) <= 1
        assert max(quotas) <= max(unsated) + 1


@pytest.mark.parametrize(
    ("total", "classes", "each"),
    [(2000, 15, 133), (2000, 30, 66), (2000, 70, 28), (500, 30, 16), (500, 90, 5), (500, 200, 2)],
)
def test_floor_sharing_of_the_specification(total: int, classes: int, each: int) -> None:
    assert Budget(total, "images", "floor").quotas([500] * classes, 1) == [each] * classes
    exact = Budget(total).quotas([500] * classes, 1)
    assert sum(exact) == total
    assert set(exact) == {each, each + 1}, "no class has less than the floor or more than the ceiling"


def test_budgets_are_read_in_all_three_units() -> None:
    assert Budget.parse("2000") == Budget(2000, "images")
    assert Budget.parse("20/class").quotas([50, 7], 1) == [20, 7]
    assert Budget.parse("50MB").capacity(10, 3072) == 50_000_000 // 3072
    assert Budget.parse("1KiB").capacity(10, 64) == 16
    for wrong in ("many", "-3", "20/task", "5TB", ""):
        with pytest.raises(UserError, match="use a number of images"):
            Budget.parse(wrong)


def image_task(index: int, num_old: int, num_new: int, each: int) -> Task:
    labels = torch.arange(num_old, num_old + num_new).repeat_interleave(each)
    values = torch.arange(len(labels)) + 50 * index
    return Task(index, num_old, num_new, Samples(values.to(torch.uint8)[:, None, None, None], labels))


def features_of(samples: Samples) -> Tensor:
    angle = samples.inputs.flatten().double() ** 1.3
    return torch.stack([angle.cos(), angle.sin()], 1)


def test_memory_trims_old_classes_in_herding_order_and_selects_from_new_ones() -> None:
    memory = Memory(Budget(12), "herding", (1, 1, 1))
    first, second = image_task(0, 0, 2, 8), image_task(1, 2, 1, 9)
    memory.update(first, features_of)
    assert memory.samples.counts(2).tolist() == [6, 6]
    order = herding(features_of(first.train)[:8], 6)
    assert memory.samples.inputs[:6].flatten().tolist() == first.train.inputs[order].flatten().tolist()
    before = memory.samples
    memory.update(second, features_of)
    assert memory.samples.counts(3).tolist() == [4, 4, 4]
    assert torch.equal(memory.samples.inputs[:4], before.inputs[:4])
    assert torch.equal(memory.samples.inputs[4:8], before.inputs[6:10])


def test_a_class_kept_whole_is_still_in_herding_order() -> None:
    memory = Memory(Budget(100), "herding", (1, 1, 1))
    task = image_task(0, 0, 1, 8)
    memory.update(task, features_of)
    assert memory.samples.inputs.flatten().tolist() == herding(features_of(task.train), 8).tolist()


def test_memory_that_forgets_nothing_asks_for_no_features() -> None:
    memory = Memory(Budget(0, "everything"), "herding", (1, 1, 1))
    memory.update(image_task(0, 0, 2, 8), lambda _: pytest.fail("no choice has to be made"))
    assert len(memory.samples) == 16


def test_fewer_slots_than_classes_keeps_one_image_of_the_oldest() -> None:
    memory = Memory(Budget(3), "random", (1, 1, 1))
    memory.update(image_task(0, 0, 2, 4), features_of)
    memory.update(image_task(1, 2, 3, 4), features_of)
    assert memory.samples.counts(5).tolist() == [1, 1, 1, 0, 0]


def test_random_selection_follows_the_seed() -> None:
    kept = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        memory = Memory(Budget(5), "random", (1, 1, 1))
        memory.update(image_task(0, 0, 1, 40), features_of)
        kept.append(memory.samples.inputs.flatten().tolist())
    assert kept[0] == kept[1] != kept[2]
