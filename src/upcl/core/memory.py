"""Exemplar memory: which images are kept within a budget, and nearest-mean classification with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .budget import Budget
from .types import Samples, Task

__all__ = [
    "Budget",
    "Memory",
    "class_means",
    "closest",
    "fused_scores",
    "herding",
    "nearest_mean_scores",
    "random_selection",
]

Selection = Literal["herding", "random", "closest"]
MAX_ENTRIES = 2**24  # of a matrix with one row per image
ROWS = 4096  # features at a time


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
        image_shape: the shape of one raw image, (C, H, W); or (d,), if features stand for images.

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
        self.num_values = math.prod(image_shape)
        kind = torch.uint8 if len(image_shape) > 1 else torch.float16
        self.samples = Samples(torch.empty(0, *image_shape, dtype=kind), torch.empty(0, dtype=torch.int64))

    @property
    def num_bytes(self) -> int:
        """Bytes of the exemplars: raw pixels at the model's size, or the features that stand for images. Labels, and
        the files that large images are read from, do not count."""
        return len(self.samples) * self._bytes_each(self.samples)

    def _bytes_each(self, samples: Samples) -> int:
        """Bytes of one exemplar: a byte per pixel, also if `samples` hold indices of files."""
        return self.num_values * (samples.inputs.element_size() if samples.inputs.is_floating_point() else 1)

    def update(self, task: Task, extract: Callable[[Samples], Tensor], network_bytes: int = 0) -> None:
        """Select exemplars of the classes of a task; other classes keep their first exemplars, as many as still fit.

        If the task has extra images of a known class, that class is selected again among its exemplars and the extra
        images.

        Args:
            task: the task that was learned.
            extract: maps samples to features, such as `Method.extract`.
            network_bytes: size of the network, for a budget that counts it.
        """
        pool = self.samples + task.extra + task.train
        quotas = self.budget.quotas(pool.counts(task.num_seen).tolist(), self._bytes_each(pool), network_bytes)
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
    if len(labels) * max(num_classes, features.shape[1]) > MAX_ENTRIES:  # slower for few, but needs no memory
        sums = torch.zeros(num_classes, features.shape[1], device=features.device)
        for rows, classes in zip(features.split(ROWS), labels.split(ROWS), strict=True):
            sums.index_add_(0, classes, F.normalize(rows.float()))
        return F.normalize(sums)
    unit = F.normalize(features.float())
    sums = F.one_hot(labels, num_classes).to(unit.dtype).T @ unit
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
