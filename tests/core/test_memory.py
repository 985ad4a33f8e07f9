"""Exemplar selection, the memory, and nearest-mean classification."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.core.test_budget import dealt_out
from upcl.core.budget import Budget
from upcl.core.memory import Memory, class_means, closest, herding, nearest_mean_scores, random_selection
from upcl.core.types import NO_SAMPLES, Samples, Task

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
    assert torch.allclose(2 - 2 * scores, torch.tensor([[0.266755, 0.102633]]), atol=1e-5), "squared distances"


def test_a_class_without_exemplars_is_never_the_nearest() -> None:
    means = class_means(ROWS[:2], torch.tensor([0, 2]), 3)
    scores = nearest_mean_scores(torch.randn(50, 2), means)
    assert not bool((scores.argmax(1) == 1).any())


def naive_herding(rows: Tensor, num: int) -> list[int]:
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
    assert herding(rows, picks).tolist() == naive_herding(rows, picks)


def test_herding_ties_go_to_the_lowest_index() -> None:
    assert herding(torch.ones(4, 2), 4).tolist() == [0, 1, 2, 3]


def test_closest_takes_the_nearest_to_the_mean_first() -> None:
    assert closest(ROWS, 2).tolist() == [2, 1]


def test_random_selection_draws_without_replacement() -> None:
    picks = random_selection(torch.zeros(20, 2), 15).tolist()
    assert len(set(picks)) == 15 and set(picks) <= set(range(20))


# --- Memory.update. Each image is its own number, and its features are the row of that number in a table.

FEATURES = F.normalize(torch.randn(400, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))


def images(numbers: list[int], labels: list[int]) -> Samples:
    if not numbers:
        return NO_SAMPLES
    return Samples(torch.tensor(numbers)[:, None, None, None], torch.tensor(labels))


def extract(samples: Samples) -> Tensor:
    return FEATURES[samples.inputs.flatten()]


def stored(memory: Memory, num_classes: int) -> list[list[int]]:
    """The numbers of the exemplars of each class, in order."""
    numbers = memory.samples.inputs.flatten()
    return [numbers[memory.samples.labels == k].tolist() for k in range(num_classes)]


Images = dict[int, list[int]]


def make_task(index: int, num_old: int, new: Images, extra: Images | None = None) -> Task:
    def samples(by_class: Images) -> Samples:
        pairs = [(number, k) for k, numbers in by_class.items() for number in numbers]
        return images([number for number, _ in pairs], [k for _, k in pairs])

    return Task(index, num_old, len(new), samples(new), samples(extra or {}))


def slow_update(before: list[list[int]], total: int, new: Images, extra: Images) -> list[list[int]]:
    """What the memory must hold afterwards, class by class."""
    num_seen = len(before) + len(new)
    pool = [[*(before[k] if k < len(before) else new[k]), *extra.get(k, [])] for k in range(num_seen)]
    quotas = dealt_out(total, [len(numbers) for numbers in pool])
    kept = []
    for k, (numbers, quota) in enumerate(zip(pool, quotas, strict=True)):
        selected_again = k in new or extra.get(k)
        order = naive_herding(FEATURES[numbers], quota) if selected_again else range(quota)
        kept.append([numbers[i] for i in order])
    return kept


@st.composite
def streams(draw: st.DrawFn) -> tuple[int, list[tuple[Images, Images]]]:
    """A budget, and tasks with new classes and more images of some known classes."""
    numbers = iter(range(400))

    def some(low: int) -> list[int]:
        return [next(numbers) for _ in range(draw(st.integers(low, 8)))]

    tasks, num_old = [], 0
    for _ in range(draw(st.integers(1, 3))):
        num_new = draw(st.integers(1, 3))
        new = {k: some(1) for k in range(num_old, num_old + num_new)}
        extra = {k: some(0) for k in range(num_old) if draw(st.booleans())}
        tasks.append((new, extra))
        num_old += num_new
    return draw(st.integers(0, 40)), tasks


@given(streams())
def test_update_equals_a_slow_reference(stream: tuple[int, list[tuple[Images, Images]]]) -> None:
    total, tasks = stream
    memory = Memory(Budget(total), "herding", (1, 1, 1))
    wanted: list[list[int]] = []
    for index, (new, extra) in enumerate(tasks):
        memory.update(make_task(index, len(wanted), new, extra), extract)
        wanted = slow_update(wanted, total, new, extra)
        assert stored(memory, len(wanted)) == wanted
        assert memory.samples.labels.tolist() == sorted(memory.samples.labels.tolist())


def numbers(first: int, num: int) -> list[int]:
    return list(range(first, first + num))


def test_old_classes_keep_their_first_exemplars() -> None:
    memory = Memory(Budget(12), "herding", (1, 1, 1))
    memory.update(make_task(0, 0, {0: numbers(0, 8), 1: numbers(8, 8)}), extract)
    first = stored(memory, 2)
    assert first == [naive_herding(FEATURES[:8], 6), [8 + k for k in naive_herding(FEATURES[8:16], 6)]]
    memory.update(make_task(1, 2, {2: numbers(16, 9)}), extract)
    assert stored(memory, 3) == [first[0][:4], first[1][:4], [16 + k for k in naive_herding(FEATURES[16:25], 4)]]


def test_extra_images_are_selected_together_with_the_exemplars_of_their_class() -> None:
    memory = Memory(Budget(9), "herding", (1, 1, 1))
    memory.update(make_task(0, 0, {0: numbers(0, 20), 1: numbers(20, 20)}), extract)
    before = stored(memory, 2)
    memory.update(make_task(1, 2, {2: numbers(40, 20)}, {1: numbers(60, 20)}), extract)
    after = stored(memory, 3)
    assert [len(kept) for kept in after] == [3, 3, 3], "the budget is exact"
    assert after[0] == before[0][:3], "a class without extra images is only trimmed"
    pool = [*before[1], *numbers(60, 20)]
    assert after[1] == [pool[i] for i in naive_herding(FEATURES[pool], 3)]
    assert set(after[1]) & set(numbers(60, 20)), "an extra image was selected"


def test_extra_images_fill_a_class_that_was_short() -> None:
    memory = Memory(Budget.parse("4/class"), "closest", (1, 1, 1))
    memory.update(make_task(0, 0, {0: [0], 1: numbers(1, 9)}), extract)
    assert [len(kept) for kept in stored(memory, 2)] == [1, 4]
    memory.update(make_task(1, 2, {2: numbers(10, 9)}, {0: numbers(20, 9)}), extract)
    assert [len(kept) for kept in stored(memory, 3)] == [4, 4, 4]


def test_unlimited_memory_keeps_every_image_and_extracts_no_features() -> None:
    def fail(_: Samples) -> Tensor:
        raise AssertionError("nothing has to be selected")

    memory = Memory(Budget(0, "everything"), "herding", (1, 1, 1))
    memory.update(make_task(0, 0, {0: numbers(0, 8), 1: numbers(8, 8)}), fail)
    memory.update(make_task(1, 2, {2: numbers(16, 4)}, {0: numbers(20, 3)}), fail)
    assert stored(memory, 3) == [[*numbers(0, 8), *numbers(20, 3)], numbers(8, 8), numbers(16, 4)]


def test_a_class_that_fits_completely_is_still_in_herding_order() -> None:
    memory = Memory(Budget(100), "herding", (1, 1, 1))
    memory.update(make_task(0, 0, {0: numbers(0, 8)}), extract)
    assert stored(memory, 1) == [naive_herding(FEATURES[:8], 8)]


def test_a_budget_in_bytes_is_exact() -> None:
    memory = Memory(Budget.parse("100B"), "herding", (3, 2, 2))
    memory.update(make_task(0, 0, {0: numbers(0, 8), 1: numbers(8, 8)}), extract)
    assert [len(kept) for kept in stored(memory, 2)] == [4, 4], "8 images of 12 bytes"


def test_fewer_slots_than_classes_keep_one_image_of_the_oldest() -> None:
    memory = Memory(Budget(3), "random", (1, 1, 1))
    memory.update(make_task(0, 0, {0: numbers(0, 4), 1: numbers(4, 4)}), extract)
    memory.update(make_task(1, 2, {2: numbers(8, 4), 3: numbers(12, 4), 4: numbers(16, 4)}), extract)
    assert [len(kept) for kept in stored(memory, 5)] == [1, 1, 1, 0, 0]


def test_random_exemplars_depend_on_the_seed() -> None:
    kept = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        memory = Memory(Budget(5), "random", (1, 1, 1))
        memory.update(make_task(0, 0, {0: numbers(0, 40)}), extract)
        kept.append(stored(memory, 1))
    assert kept[0] == kept[1] != kept[2]


class ElementCounter(TorchDispatchMode):
    """Counts the elements of all tensors that are computed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        self.total += found.numel() if isinstance(found, Tensor) else 0
        return found


def test_work_of_the_memory_grows_with_the_images_not_with_images_times_classes() -> None:
    totals = []
    for num in (100, 400):
        memory = Memory(Budget(num), "herding", (1, 2, 2))
        images = Samples(torch.zeros(2 * num, 1, 2, 2, dtype=torch.uint8), torch.arange(num).repeat(2))
        task = Task(index=0, num_old=0, num_new=num, train=images)
        with ElementCounter() as counter:
            memory.update(task, lambda samples: torch.ones(len(samples), 4))
        assert memory.samples.labels.tolist() == list(range(num))
        totals.append(counter.total)
    assert totals[1] < 5 * totals[0]


def test_bytes_of_exemplars_are_pixels_files_or_features() -> None:
    labels = torch.tensor([0, 0, 1])
    for shape, inputs, each in (
        ((3, 8, 8), torch.zeros(3, 3, 8, 8, dtype=torch.uint8), 192),
        ((3, 224, 224), torch.arange(3), 3 * 224 * 224),  # indices of files count as pixels at the model's size
        ((10,), torch.zeros(3, 10, dtype=torch.float16), 20),
    ):
        memory = Memory(Budget(2 * each, "bytes"), "herding", shape)
        assert memory.num_bytes == 0
        memory.update(Task(0, 0, 2, Samples(inputs, labels)), lambda samples: torch.rand(len(samples), 4))
        assert memory.num_bytes == 2 * each, "a budget in bytes is exact for features, too"


def test_a_total_budget_leaves_room_for_the_network() -> None:
    memory = Memory(Budget(10, "total bytes"), "herding", (1, 1, 1))
    memory.update(make_task(0, 0, {0: numbers(0, 8), 1: numbers(8, 8)}), extract, network_bytes=4)
    assert memory.num_bytes == 6
    memory.update(make_task(1, 2, {2: numbers(16, 9)}), extract, network_bytes=8)
    assert memory.num_bytes == 2, "a network that grows leaves less"
    memory.update(make_task(2, 3, {3: numbers(25, 9)}), extract, network_bytes=80)
    assert memory.num_bytes == 0


def test_an_empty_memory_of_features_holds_features() -> None:
    assert Memory(Budget(0), "herding", (5,)).samples.inputs.is_floating_point(), "so that no backbone looks at them"
    assert Memory(Budget(0), "herding", (3, 8, 8)).samples.inputs.dtype == torch.uint8
