"""Who sees what, and when: class order, split into tasks, held-out data. Test sets stay in here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from upcl.core.errors import UserError, unknown_choice
from upcl.core.memory import Sharing
from upcl.core.types import Samples, Task
from upcl.data import Dataset

Select = Literal["last", "validation", "test"]


@dataclass(frozen=True)
class Choices:
    """What a named protocol decides for every method alike."""

    select: Select
    sharing: Sharing
    official: bool  # the fields that methods bring as `official`


PROTOCOLS: dict[str, Choices] = {
    "honest": Choices(select="last", sharing="exact", official=False),
    "paper": Choices(select="test", sharing="floor", official=True),
}


def class_order(num_classes: int, seed: int) -> list[int]:
    """The field's class order: numpy's legacy generator, usually with seed 1993."""
    return [int(c) for c in np.random.RandomState(seed).permutation(num_classes)]


def parse_order(order: Sequence[str], classes: Sequence[str]) -> list[int]:
    """A class order of one's own: every class once, by its name or its number in the data set."""
    place = {name: k for k, name in enumerate(classes) if classes.count(name) == 1}
    numbers = {str(k): k for k in range(len(classes))}
    wanted = []
    for each in order:
        if each not in place and each not in numbers:
            if each in classes:
                raise UserError(f"several classes are named {each}: give the class order by numbers")
            raise unknown_choice("class in the order", each, classes)
        wanted.append(place[each] if each in place else numbers[each])
    if missing := [name for k, name in enumerate(classes) if k not in wanted]:
        raise UserError(f"the class order must name all {len(classes)} classes; it lacks {', '.join(missing[:5])}")
    if len(wanted) > len(classes):
        twice = next(k for k in wanted if wanted.count(k) > 1)
        raise UserError(f"the class order names {classes[twice]} twice")
    return wanted


def split_classes(num_classes: int, tasks: int | Sequence[int]) -> list[int]:
    """Classes of each task: an equal split (the first tasks take the remainder), or the sizes that were given."""
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
class Tail:
    """A long tail: the largest class keeps all its training images, the smallest `factor` of them.

    `exp` falls geometrically over the classes, `step` cuts the second half. `ordered` falls along the class order, so
    that late tasks are poor; `shuffled` draws which class gets which share.
    """

    kind: str
    factor: float
    ordered: bool = False
    seed: int = 0

    @staticmethod
    def parse(text: str) -> Tail:
        """`exp:0.01`, `step:0.1`, `exp:0.01:ordered`, `exp:0.01:shuffled:3`."""
        found = re.fullmatch(r"(exp|step):(0?\.\d+|1)(?::(ordered|shuffled)(?::(\d+))?)?", text)
        if not found or float(found[2]) == 0:
            raise UserError(f"long tail '{text}': say exp:0.01 or step:0.1, perhaps with :ordered or :shuffled:SEED")
        return Tail(found[1], float(found[2]), found[3] == "ordered", int(found[4] or 0))

    def shares(self, num_classes: int) -> list[float]:
        """The share of its images that each class keeps, in the class order."""
        last = max(num_classes - 1, 1)
        falling = [self.factor ** (k / last) for k in range(num_classes)]
        if self.kind == "step":
            falling = [1.0 if k < (num_classes + 1) // 2 else self.factor for k in range(num_classes)]
        if self.ordered:
            return falling
        return [falling[k] for k in np.random.RandomState(self.seed).permutation(num_classes)]


def share_of(num: int, share: float) -> int:
    """Rounded down, but not because of how floats are stored: 0.29 of 100 are 29."""
    return int(share * num + 1e-9)


def thinned(samples: Samples, shares: Sequence[float]) -> Samples:
    """The first images of each class, as many as its share says and at least one."""
    keep = torch.zeros(len(samples), dtype=torch.bool)
    for k, share in enumerate(shares):
        members = (samples.labels == k).nonzero()[:, 0]
        keep[members[: max(1, share_of(len(members), share))]] = True
    return samples[keep]


class Protocol:
    """A data set told as a sequence of tasks. Labels become positions in the class order."""

    def __init__(
        self,
        dataset: Dataset,
        task_sizes: Sequence[int],
        order_seed: int,
        validation: float = 0.0,
        tail: Tail | None = None,
        order: Sequence[int] | None = None,
    ) -> None:
        self.order = list(order) if order else class_order(len(dataset.classes), order_seed)
        self.classes = [dataset.classes[c] for c in self.order]
        self.task_sizes = list(task_sizes)
        position = torch.tensor(self.order).argsort()
        train = Samples(dataset.train.inputs, position[dataset.train.labels])
        if tail:
            train = thinned(train, tail.shares(len(self.order)))
        held_out = _hold_out(train.labels, validation, order_seed)
        self._test = Samples(dataset.test.inputs, position[dataset.test.labels])
        self._validation = train[held_out]
        if validation and int(self._validation.counts(len(self.order)).min()) == 0:
            smallest = int(train.counts(len(self.order)).min())
            raise UserError(
                f"validation {validation} of a class with {smallest} images holds none out: raise the share"
            )
        self._train = train[~held_out]

    def __len__(self) -> int:
        return len(self.task_sizes)

    def task(self, index: int) -> Task:
        """The task of this index, with its own training images only."""
        old = sum(self.task_sizes[:index])
        new = self.task_sizes[index]
        inside = (self._train.labels >= old) & (self._train.labels < old + new)
        return Task(index, old, new, self._train[inside])

    def test(self, num_seen: int) -> Samples:
        """Test images of the classes seen so far. For `evaluate` only."""
        return self._test[self._test.labels < num_seen]

    def validation(self, num_seen: int) -> Samples:
        """Images held out of the training data of the classes seen so far. For choosing an epoch only."""
        return self._validation[self._validation.labels < num_seen]


def _hold_out(labels: Tensor, fraction: float, seed: int) -> Tensor:
    """A mask of `fraction` of each class's images (rounded down; a class always keeps one)."""
    mask = torch.zeros(len(labels), dtype=torch.bool)
    order = torch.from_numpy(np.random.RandomState(seed).permutation(len(labels)))
    for label in labels.unique():
        members = order[labels[order] == label]
        mask[members[: share_of(len(members), fraction)]] = True
    return mask
