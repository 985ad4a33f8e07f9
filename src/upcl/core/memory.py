"""Exemplars: how many a budget allows, which ones are kept, and what they tell (nearest class mean)."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .errors import UserError
from .types import Samples, Task

Unit = Literal["images", "images/class", "bytes", "everything"]
Sharing = Literal["exact", "floor"]
Selection = Literal["herding", "random", "closest"]
BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@dataclass(frozen=True)
class Budget:
    """A limit on the exemplars: images in all, images a class, or bytes of raw pixels. Never exceeded.

    `exact` shares the remainder of a division out, one image each to the oldest classes, and what a small class cannot
    use goes to the others. `floor` gives every class floor(M / classes) and leaves the rest unused (PyCIL, the paper).
    """

    amount: int
    unit: Unit = "images"
    sharing: Sharing = "exact"

    @staticmethod
    def parse(text: str, sharing: Sharing = "exact") -> Budget:
        """`2000`, `20/class` or `50MB`."""
        match = re.fullmatch(r"(\d+)\s*(/class|[KMG]?i?B)?", text.strip(), re.IGNORECASE)
        if not match:
            raise UserError(f"memory '{text}': say a number of images (2000), 20/class, or bytes (50MB)")
        amount, unit = int(match[1]), (match[2] or "").upper()
        if not unit:
            return Budget(amount, "images", sharing)
        if unit == "/CLASS":
            return Budget(amount, "images/class", sharing)
        return Budget(amount * BYTES[unit], "bytes", sharing)

    def capacity(self, num_classes: int, image_bytes: int) -> int:
        """Images in all that the budget allows (of a budget without limit: one a class at least)."""
        if self.unit == "images/class":
            return self.amount * num_classes
        if self.unit == "everything":
            return num_classes
        return self.amount // image_bytes if self.unit == "bytes" else self.amount

    def quotas(self, available: Sequence[int], image_bytes: int) -> list[int]:
        """Exemplars of each class, at most what is available of it."""
        if self.unit == "everything":
            return list(available)
        if self.unit == "images/class":
            return [min(self.amount, images) for images in available]
        total = self.capacity(len(available), image_bytes)
        if self.sharing == "floor":
            return [min(total // max(len(available), 1), images) for images in available]
        return divide_budget(total, available)


def divide_budget(total: int, available: Sequence[int]) -> list[int]:
    """Share `total` as evenly as the available numbers allow; the remainder goes to the first classes."""
    levels = range(max(available, default=0) + 1)
    level = bisect_right(levels, total, key=lambda each: sum(min(images, each) for images in available)) - 1
    quotas = [min(images, level) for images in available]
    rest = total - sum(quotas)
    for k, images in enumerate(available):
        if rest > 0 and images > level:
            quotas[k] += 1
            rest -= 1
    return quotas


TIE = 1e-12
LARGE = 4096


def herding(unit: Tensor, num: int) -> Tensor:
    """Herding: greedily pick rows of `unit` (n x d) whose running mean stays nearest the mean of all rows.

    ||mu - (S + v_i)/k||^2 differs between candidates only by (2 S.v_i + |v_i|^2)/k^2 - 2 mu.v_i/k; S.v_i follows from
    one column of the Gram matrix for each pick, of the whole matrix where it is small enough to keep. Ties, within
    rounding, go to the lowest index. numpy's short operations cost a tenth of torch's.
    """
    exact = unit.double().cpu()
    rows, gram = exact.numpy(), (exact @ exact.T).numpy() if len(exact) <= LARGE else None
    to_mean, own = (exact @ exact.mean(0)).numpy(), exact.square().sum(1).numpy()  # of a pick, own becomes infinite
    to_sum = np.zeros(len(rows))
    picks = []
    for k in range(1, min(num, len(rows)) + 1):
        cost = (2 * to_sum + own) / k**2 - 2 * to_mean / k
        pick = int((cost <= cost.min() + TIE).argmax())
        picks.append(pick)
        own[pick] = np.inf
        to_sum += rows @ rows[pick] if gram is None else gram[pick]
    return torch.tensor(picks, dtype=torch.int64, device=unit.device)


def closest(unit: Tensor, num: int) -> Tensor:
    """The rows nearest (by cosine) to the mean of all rows, nearest first."""
    return (unit @ unit.mean(0)).argsort(descending=True, stable=True)[:num]


def random_selection(unit: Tensor, num: int) -> Tensor:
    """Rows drawn without replacement."""
    return torch.randperm(len(unit))[:num].to(unit.device)


SELECTIONS: dict[Selection, Callable[[Tensor, int], Tensor]] = {
    "herding": herding,
    "random": random_selection,
    "closest": closest,
}


class Memory:
    """The stored exemplars: raw images, classes in label order, the most telling first within each class."""

    def __init__(self, budget: Budget, selection: Selection, image_shape: Sequence[int]) -> None:
        self.budget = budget
        self.selection = selection
        self.image_bytes = math.prod(image_shape)
        self.samples = Samples(torch.empty(0, *image_shape, dtype=torch.uint8), torch.empty(0, dtype=torch.int64))

    def update(self, task: Task, extract: Callable[[Samples], Tensor]) -> None:
        """After a task, select the exemplars of its classes by their features; other classes keep their first ones.

        A known class of which the task brought more images is selected anew among its exemplars and those images.

        Args:
            task: the task that was learned.
            extract: maps samples to features, such as `Method.extract`.
        """
        pool = self.samples + task.extra + task.train
        quotas = self.budget.quotas(pool.counts(task.num_seen).tolist(), self.image_bytes)
        members = [(pool.labels == k).nonzero()[:, 0] for k in range(task.num_seen)]
        if self.budget.unit != "everything":
            select = SELECTIONS[self.selection]
            for k in task.extra.labels.unique().tolist():
                unit = F.normalize(extract(pool[members[k]])).cpu()
                members[k] = members[k][select(unit, quotas[k])]
            if any(quotas[task.num_old :]):
                unit = F.normalize(extract(task.train)).cpu()
                for k in range(task.num_old, task.num_seen):
                    members[k] = members[k][select(unit[task.train.labels == k], quotas[k])]
        self.samples = pool[torch.cat([m[:quota] for m, quota in zip(members, quotas, strict=True)])]


def class_means(features: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Unit mean direction of each class (C x d); zero where a class has no row."""
    members = F.one_hot(labels, num_classes).to(features.dtype)
    sums: Tensor = members.T @ F.normalize(features)
    return F.normalize(sums)


def nearest_mean_scores(features: Tensor, means: Tensor) -> Tensor:
    """Negative squared distance of each normalised feature to each class mean; never a class without one."""
    unit = F.normalize(features)
    scores = -(2 - 2 * unit @ means.T)
    return scores.masked_fill(means.norm(dim=1) == 0, -torch.inf)
