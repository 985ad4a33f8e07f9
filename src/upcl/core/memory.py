"""Exemplar memory: how many images a budget allows, which ones are kept, and nearest-mean classification with them."""

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
MAX_ONE_HOT = 2**24  # entries of a matrix of one-hot rows
BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@dataclass(frozen=True)
class Budget:
    """A limit on the exemplars, which is never exceeded.

    Args:
        amount: the limit, in `unit`.
        unit: "images" in total, "images/class", "bytes" of raw pixels, or "everything" for no limit.
        sharing: "exact" distributes the remainder of the division by the classes, one image each to the oldest
            classes, and gives what a small class cannot use to the others. "floor" gives every class
            floor(amount / classes) and leaves the rest unused (PyCIL, the paper).

    Example:
        >>> Budget(10).quotas([500, 500, 2], image_bytes=3072)
        [4, 4, 2]
        >>> Budget(10, sharing="floor").quotas([500, 500, 2], image_bytes=3072)
        [3, 3, 2]
    """

    amount: int
    unit: Unit = "images"
    sharing: Sharing = "exact"

    @staticmethod
    def parse(text: str, sharing: Sharing = "exact") -> Budget:
        """Read a budget from text.

        Args:
            text: such as `2000` (images in total), `20/class` or `50MB`.
            sharing: how the budget is shared among the classes.

        Raises:
            UserError: If the text is not a budget.

        Example:
            >>> Budget.parse("20/class")
            Budget(amount=20, unit='images/class', sharing='exact')
        """
        match = re.fullmatch(r"(\d{1,18})\s*(/class|[KMG]?i?B)?", text.strip(), re.IGNORECASE)
        if not match:
            raise UserError(
                f"memory '{text}': use a number of images (2000), images per class (20/class), or bytes (50MB)"
            )
        amount, unit = int(match[1]), (match[2] or "").upper()
        if not unit:
            return Budget(amount, "images", sharing)
        if unit == "/CLASS":
            return Budget(amount, "images/class", sharing)
        return Budget(amount * BYTES[unit], "bytes", sharing)

    def capacity(self, num_classes: int, image_bytes: int) -> int:
        """Return the number of images that the budget allows in total; for "everything", one per class at least.

        Args:
            num_classes: number of classes in the memory.
            image_bytes: size of one raw image.

        Example:
            >>> Budget.parse("50MB").capacity(num_classes=100, image_bytes=3072)
            16276
        """
        if self.unit == "images/class":
            return self.amount * num_classes
        if self.unit == "everything":
            return num_classes
        return self.amount // image_bytes if self.unit == "bytes" else self.amount

    def quotas(self, available: Sequence[int], image_bytes: int) -> list[int]:
        """Return the number of exemplars of each class.

        Args:
            available: images that each class has; its quota is at most this.
            image_bytes: size of one raw image.
        """
        if self.unit == "everything":
            return list(available)
        if self.unit == "images/class":
            return [min(self.amount, images) for images in available]
        total = self.capacity(len(available), image_bytes)
        if self.sharing == "floor":
            return [min(total // max(len(available), 1), images) for images in available]
        return divide_budget(total, available)


def divide_budget(total: int, available: Sequence[int]) -> list[int]:
    """Share a number of slots among classes as evenly as their sizes allow; the first classes get the remainder.

    Args:
        total: number of slots.
        available: images that each class has.

    Returns:
        The number of slots of each class; their sum is `total`, or everything that is available if that is less.

    Example:
        >>> divide_budget(11, [2, 9, 9, 9])
        [2, 3, 3, 3]
        >>> divide_budget(12, [2, 9, 9, 9])
        [2, 4, 3, 3]
    """
    levels = range(max(available, default=0) + 1)
    level = bisect_right(levels, total, key=lambda each: sum(min(images, each) for images in available)) - 1
    quotas = [min(images, level) for images in available]
    rest = total - sum(quotas)
    for k, images in enumerate(available):
        if rest > 0 and images > level:
            quotas[k] += 1
            rest -= 1
    return quotas


_TIE = 1e-12
_LARGE = 4096  # rows up to which the Gram matrix is kept


def herding(unit: Tensor, num: int) -> Tensor:
    """Select rows greedily so that their running mean stays closest to the mean of all rows (iCaRL).

    ||mu - (S + v_i)/k||^2 differs between candidates only by (2 S.v_i + |v_i|^2)/k^2 - 2 mu.v_i/k; S.v_i follows from
    one column of the Gram matrix per pick, or of the complete matrix if it is small enough to keep. Ties, within
    rounding, go to the lowest index. numpy's short operations cost a tenth of torch's.

    Args:
        unit: unit feature vectors of one class (n x d).
        num: number of rows to select; more than n selects all.

    Returns:
        The indices of the selected rows, in the order of selection.

    Example:
        >>> rows = torch.tensor([[1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1], [-0.6, 0.8]])
        >>> herding(rows, 3).tolist()
        [2, 3, 0]
    """
    exact = unit.double().cpu()
    rows, gram = exact.numpy(), (exact @ exact.T).numpy() if len(exact) <= _LARGE else None
    to_mean, own = (exact @ exact.mean(0)).numpy(), exact.square().sum(1).numpy()  # of a pick, own becomes infinite
    to_sum = np.zeros(len(rows))
    picks = []
    for k in range(1, min(num, len(rows)) + 1):
        cost = (2 * to_sum + own) / k**2 - 2 * to_mean / k
        pick = int((cost <= cost.min() + _TIE).argmax())
        picks.append(pick)
        own[pick] = np.inf
        to_sum += rows @ rows[pick] if gram is None else gram[pick]
    return torch.tensor(picks, dtype=torch.int64, device=unit.device)


def closest(unit: Tensor, num: int) -> Tensor:
    """Select the rows with the largest cosine to the mean of all rows, closest first.

    Args:
        unit: unit feature vectors of one class (n x d).
        num: number of rows to select.

    Example:
        >>> closest(torch.tensor([[1, 0], [0.8, 0.6], [0, 1]]), 2).tolist()
        [1, 0]
    """
    return (unit @ unit.mean(0)).argsort(descending=True, stable=True)[:num]


def random_selection(unit: Tensor, num: int) -> Tensor:
    """Select rows at random, without replacement.

    Args:
        unit: feature vectors of one class (n x d); only their number matters.
        num: number of rows to select.

    Example:
        >>> sorted(random_selection(torch.zeros(3, 2), 3).tolist())
        [0, 1, 2]
    """
    return torch.randperm(len(unit))[:num].to(unit.device)


SELECTIONS: dict[Selection, Callable[[Tensor, int], Tensor]] = {
    "herding": herding,
    "random": random_selection,
    "closest": closest,
}


class Memory:
    """The stored exemplars: raw images, classes in label order, most representative first within each class.

    Args:
        budget: the limit.
        selection: how exemplars are chosen among the images of a class.
        image_shape: the shape of one raw image, (C, H, W).

    Example:
        >>> memory = Memory(Budget(2), "herding", (1, 8, 8))
        >>> images = Samples(torch.zeros(6, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 0, 0, 1, 1, 1]))
        >>> task = Task(index=0, num_old=0, num_new=2, train=images)
        >>> memory.update(task, extract=lambda samples: torch.rand(len(samples), 5))
        >>> memory.samples.labels.tolist()
        [0, 1]
    """

    def __init__(self, budget: Budget, selection: Selection, image_shape: Sequence[int]) -> None:
        self.budget = budget
        self.selection = selection
        self.image_bytes = math.prod(image_shape)
        self.samples = Samples(torch.empty(0, *image_shape, dtype=torch.uint8), torch.empty(0, dtype=torch.int64))

    def update(self, task: Task, extract: Callable[[Samples], Tensor]) -> None:
        """Select exemplars of the classes of a task; other classes keep their first exemplars, as many as still fit.

        If the task has extra images of a known class, that class is selected again among its exemplars and the extra
        images.

        Args:
            task: the task that was learned.
            extract: maps samples to features, such as `Method.extract`.
        """
        pool = self.samples + task.extra + task.train
        quotas = self.budget.quotas(pool.counts(task.num_seen).tolist(), self.image_bytes)
        members = pool.rows_by_class(task.num_seen)
        if self.budget.unit != "everything":
            select = SELECTIONS[self.selection]
            for k in task.extra.labels.unique().tolist():
                unit = F.normalize(extract(pool[members[k]])).cpu()
                members[k] = members[k][select(unit, quotas[k])]
            if any(quotas[task.num_old :]):
                unit = F.normalize(extract(task.train)).cpu()
                rows = task.train.rows_by_class(task.num_seen)
                for k in range(task.num_old, task.num_seen):
                    members[k] = members[k][select(unit[rows[k]], quotas[k])]
        self.samples = pool[torch.cat([m[:quota] for m, quota in zip(members, quotas, strict=True)])]


def class_means(features: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Compute the mean direction of each class.

    Args:
        features: feature vectors (N x d), of any length.
        labels: their classes (N).
        num_classes: number of classes C.

    Returns:
        Unit vectors (C x d); zero for a class without features.

    Example:
        >>> class_means(torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([0, 2]), 3).tolist()
        [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    """
    unit = F.normalize(features)
    if len(labels) * num_classes > MAX_ONE_HOT:  # slower for few, but needs no memory
        return F.normalize(unit.new_zeros(num_classes, unit.shape[1]).index_add_(0, labels, unit))
    sums: Tensor = F.one_hot(labels, num_classes).to(unit.dtype).T @ unit
    return F.normalize(sums)


def nearest_mean_scores(features: Tensor, means: Tensor) -> Tensor:
    """Compute the cosine of each feature to each class mean: of unit vectors, the nearest has the largest (NME).

    Args:
        features: feature vectors (B x d).
        means: unit class means (C x d), as `class_means` returns them.

    Returns:
        Scores (B x C); minus infinity for a class without a mean.

    Example:
        >>> means = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
        >>> nearest_mean_scores(torch.tensor([[0.0, 5.0]]), means).tolist()
        [[0.0, 1.0, -inf]]
    """
    cosines = F.normalize(features) @ means.T
    return cosines.masked_fill(means.norm(dim=1) == 0, -torch.inf)


def fused_scores(head: Tensor, nearest: Tensor) -> Tensor:
    """Combine the scores of a classifier with those of the nearest mean, each standardised over the classes.

    Standardising makes logits and cosines comparable without any parameter to fit. A class without a mean is scored by
    the classifier alone.

    Args:
        head: scores of the classifier (B x C).
        nearest: scores of the nearest mean (B x C); minus infinity for a class without a mean.

    Returns:
        The mean of both standardised scores (B x C).

    Example:
        >>> head = torch.tensor([[10.0, 9.0, 0.0]])
        >>> fused_scores(head, torch.tensor([[0.1, 0.9, 0.2]])).argmax(1).item()
        1
    """
    known = nearest > -torch.inf
    standard = _standardised(head, torch.ones_like(known))
    return torch.where(known, (standard + _standardised(nearest, known)) / 2, standard)


def _standardised(scores: Tensor, known: Tensor) -> Tensor:
    """Scores with mean 0 and deviation 1 over the known classes of each row."""
    scores = scores.masked_fill(~known, 0.0)
    num = known.sum(1, keepdim=True).clamp(min=1)
    centred = (scores - scores.sum(1, keepdim=True) / num).masked_fill(~known, 0.0)
    return centred / (centred.square().sum(1, keepdim=True) / num).sqrt().clamp(min=1e-12)
