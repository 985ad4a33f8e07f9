"""Who sees what, and when: class order, split into tasks, held-out data. Test images stay in here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from upcl.core.budget import Sharing
from upcl.core.errors import UserError, unknown_choice
from upcl.core.splits import hold_out
from upcl.core.types import Samples, Task
from upcl.data import Dataset

if TYPE_CHECKING:
    from .scenarios import Scenario

Select = Literal["last", "validation", "test"]


@dataclass(frozen=True)
class ProtocolChoices:
    """What a named protocol decides for every method alike.

    Args:
        select: rule that selects the epoch a task ends with.
        sharing: how a memory budget is divided among classes.
        official: whether methods use their `official_options`.

    Example:
        >>> PROTOCOLS["paper"].select, PROTOCOLS["honest"].select
        ('test', 'last')
    """

    select: Select
    sharing: Sharing
    official: bool


PROTOCOLS: dict[str, ProtocolChoices] = {
    "honest": ProtocolChoices(select="last", sharing="exact", official=False),
    "paper": ProtocolChoices(select="test", sharing="floor", official=True),
}


def class_order(num_classes: int, seed: int) -> list[int]:
    """The class order that the field uses: a permutation by numpy's legacy generator.

    Args:
        num_classes: number of classes.
        seed: usually 1993.

    Example:
        >>> class_order(10, 1993)
        [4, 2, 7, 6, 0, 3, 5, 8, 9, 1]
    """
    return [int(c) for c in np.random.RandomState(seed).permutation(num_classes)]


def parse_order(order: Sequence[str], classes: Sequence[str]) -> list[int]:
    """A custom class order as labels.

    Args:
        order: every class once, by its name or its label in the data set.
        classes: class names of the data set.

    Raises:
        UserError: if a class is unknown, missing, ambiguous or repeated.

    Example:
        >>> parse_order(["owl", "0"], ["cat", "owl"])
        [1, 0]
    """
    num_named = Counter(classes)
    by_name = {name: k for k, name in enumerate(classes) if num_named[name] == 1}
    by_number = {str(k): k for k in range(len(classes))}
    labels = []
    for each in order:
        if each not in by_name and each not in by_number:
            if each in num_named:
                raise UserError(f"several classes are named {each}: give the class order by numbers")
            raise unknown_choice("class in the order", each, classes)
        labels.append(by_name[each] if each in by_name else by_number[each])
    given = Counter(labels)
    if missing := [name for k, name in enumerate(classes) if k not in given]:
        raise UserError(f"the class order must contain all {len(classes)} classes; it lacks {', '.join(missing[:5])}")
    if len(labels) > len(classes):
        repeated = next(k for k in labels if given[k] > 1)
        raise UserError(f"the class order contains {classes[repeated]} twice")
    return labels


def split_classes(num_classes: int, tasks: int | Sequence[int]) -> list[int]:
    """The number of classes of each task.

    Args:
        num_classes: number of classes.
        tasks: number of tasks of equal size (the first ones take the remainder), or the size of each.

    Raises:
        UserError: if the classes cannot be split like this.

    Example:
        >>> split_classes(10, 3)
        [4, 3, 3]
    """
    if isinstance(tasks, int):
        if not 1 <= tasks <= num_classes:
            raise UserError(f"{num_classes} classes cannot be split into {tasks} tasks: choose 1 to {num_classes}")
        share, rest = divmod(num_classes, tasks)
        return [share + (t < rest) for t in range(tasks)]
    sizes = list(tasks)
    if not sizes or min(sizes) < 1 or sum(sizes) != num_classes:
        raise UserError(f"task sizes {sizes} must be positive and sum to the {num_classes} classes")
    return sizes


@dataclass(frozen=True)
class LongTail:
    """A long-tailed stream: the largest class keeps all its training images, the smallest a share of them.

    Args:
        kind: `exp` falls geometrically over the classes, `step` reduces the second half of them.
        factor: share of its images that the smallest class keeps.
        ordered: fall along the class order, so that late tasks are small; otherwise shares are assigned at random.
        seed: seed of the random assignment.

    Example:
        >>> [round(share, 2) for share in LongTail("exp", 0.01, ordered=True).shares(3)]
        [1.0, 0.1, 0.01]
    """

    kind: str
    factor: float
    ordered: bool = False
    seed: int = 0

    @staticmethod
    def parse(text: str) -> LongTail:
        """Parse `exp:0.01`, `step:0.1`, `exp:0.01:ordered` or `exp:0.01:shuffled:3`.

        Args:
            text: kind, factor and optionally the arrangement.

        Raises:
            UserError: if the text is none of these.

        Example:
            >>> LongTail.parse("step:0.1:ordered").shares(4)
            [1.0, 1.0, 0.1, 0.1]
        """
        found = re.fullmatch(r"(exp|step):(0?\.\d+|1)(?::(ordered|shuffled)(?::(\d{1,9}))?)?", text)
        if not found or float(found[2]) == 0:
            raise UserError(
                f"long tail '{text}': use exp:0.01 or step:0.1, optionally followed by :ordered or :shuffled:SEED"
            )
        return LongTail(found[1], float(found[2]), found[3] == "ordered", int(found[4] or 0))

    def shares(self, num_classes: int) -> list[float]:
        """The share of its images that each class keeps, in class order.

        Args:
            num_classes: number of classes.
        """
        last = max(num_classes - 1, 1)
        falling = [self.factor ** (k / last) for k in range(num_classes)]
        if self.kind == "step":
            falling = [1.0 if k < (num_classes + 1) // 2 else self.factor for k in range(num_classes)]
        if self.ordered:
            return falling
        return [falling[k] for k in np.random.RandomState(self.seed).permutation(num_classes)]


def subsample(samples: Samples, shares: Sequence[float]) -> Samples:
    """The first images of each class.

    Args:
        samples: images with labels below the number of shares.
        shares: share of its images that each class keeps, at least one image.

    Example:
        >>> samples = Samples(torch.zeros(6, 1), torch.tensor([0, 0, 0, 0, 1, 1]))
        >>> subsample(samples, [0.5, 0.5]).labels.tolist()
        [0, 0, 1]
    """
    keep = torch.zeros(len(samples), dtype=torch.bool)
    for k, share in enumerate(shares):
        members = (samples.labels == k).nonzero()[:, 0]
        num = int(share * len(members) + 1e-9)  # 0.29 of 100 is 29, whatever the rounding of floats
        keep[members[: max(1, num)]] = True
    return samples[keep]


class Protocol:
    """A data set as a sequence of tasks. Labels become positions in the class order.

    Args:
        dataset: the data set.
        task_sizes: number of classes of each task.
        order_seed: seed of the class order and of the validation split.
        validation: share of each class's training images to hold out.
        tail: makes the stream long-tailed.
        order: custom class order.
        scenario: when images arrive; by default, all images of a class in its own task.

    Raises:
        UserError: if a class is too small to hold out the validation share, or no class comes back although the
            scenario says so.

    Example:
        >>> from upcl.data import load_dataset
        >>> protocol = Protocol(load_dataset("synthetic:classes=4,train=5,test=2"), [2, 2], order_seed=1993)
        >>> len(protocol), len(protocol.task(1).train), len(protocol.test(num_seen=2))
        (2, 10, 4)
    """

    def __init__(
        self,
        dataset: Dataset,
        task_sizes: Sequence[int],
        order_seed: int,
        validation: float = 0.0,
        tail: LongTail | None = None,
        order: Sequence[int] | None = None,
        scenario: Scenario | None = None,
    ) -> None:
        self.order = list(order) if order else class_order(len(dataset.classes), order_seed)
        self.classes = [dataset.classes[c] for c in self.order]
        self.task_sizes = list(task_sizes)
        position = torch.tensor(self.order).argsort()
        train = Samples(dataset.train.inputs, position[dataset.train.labels])
        if tail:
            train = subsample(train, tail.shares(len(self.order)))
        held_out = torch.from_numpy(hold_out(train.labels, validation, order_seed))
        self._test = Samples(dataset.test.inputs, position[dataset.test.labels])
        self._validation = train[held_out]
        if validation and int(self._validation.counts(len(self.order)).min()) == 0:
            smallest = int(train.counts(len(self.order)).min())
            raise UserError(
                f"validation {validation} holds out no image of a class with {smallest} images: raise the share"
            )
        self._train = train[~held_out]
        own = torch.arange(len(task_sizes)).repeat_interleave(torch.tensor(self.task_sizes))[self._train.labels]
        self._arrivals = scenario.arrivals(self._train.labels, self.task_sizes, order_seed) if scenario else own

    def __len__(self) -> int:
        return len(self.task_sizes)

    def task(self, index: int) -> Task:
        """A task with its own training images only: those of new classes, and of known ones that arrive now.

        Args:
            index: index of the task.
        """
        old = sum(self.task_sizes[:index])
        new = self.task_sizes[index]
        arrives, is_new = self._arrivals == index, self._train.labels >= old
        return Task(index, old, new, self._train[arrives & is_new], self._train[arrives & ~is_new])

    def test(self, num_seen: int) -> Samples:
        """Test images of the classes seen so far. For `evaluate` only.

        Args:
            num_seen: number of classes seen.
        """
        return self._test[self._test.labels < num_seen]

    def validation(self, num_seen: int) -> Samples:
        """Held-out training images of the classes seen so far. For the selection of an epoch only.

        Args:
            num_seen: number of classes seen.
        """
        return self._validation[self._validation.labels < num_seen]
