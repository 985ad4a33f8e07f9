"""Figures computed from hits per class and from the accuracy matrix. Accuracies are percentages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from torch import Tensor

AccuracyMatrix = Sequence[Sequence[float]]
"""Row t, column j: accuracy on the classes of task j after learning task t (j <= t)."""


def accuracy(hits: Tensor, totals: Tensor) -> float:
    """Compute the share of all images that are classified correctly (micro average).

    Args:
        hits: correctly classified images per class (C).
        totals: images per class (C).

    Example:
        >>> from torch import tensor
        >>> accuracy(tensor([9, 1]), tensor([10, 10]))
        50.0
    """
    return 100 * int(hits.sum()) / int(totals.sum())


def accuracy_by_task(hits: Tensor, totals: Tensor, task_sizes: Sequence[int]) -> list[float]:
    """Compute the accuracy on the classes of each task: one row of the accuracy matrix.

    Args:
        hits: correctly classified images per class (C).
        totals: images per class (C).
        task_sizes: classes per task; they sum to C.

    Example:
        >>> from torch import tensor
        >>> accuracy_by_task(tensor([9, 7, 2]), tensor([10, 10, 10]), [2, 1])
        [80.0, 20.0]
    """
    sizes = list(task_sizes)
    return [accuracy(h, n) for h, n in zip(hits.split(sizes), totals.split(sizes), strict=True)]


def accuracy_by_class(hits: Tensor, totals: Tensor) -> list[float | None]:
    """Compute the accuracy on each class; None for a class without images.

    Args:
        hits: correctly classified images per class (C).
        totals: images per class (C).

    Example:
        >>> from torch import tensor
        >>> accuracy_by_class(tensor([9, 0]), tensor([10, 0]))
        [90.0, None]
    """
    pairs = zip(hits.tolist(), totals.tolist(), strict=True)
    return [100 * hit / total if total else None for hit, total in pairs]


def average_accuracy(curve: Sequence[float]) -> float:
    """Compute A_avg, the average incremental accuracy: the mean of A_0 .. A_{T-1}, including the first task.

    Args:
        curve: the accuracy on all seen classes after each task.

    Example:
        >>> average_accuracy([90, 80, 70, 66])
        76.5
    """
    return sum(curve) / len(curve)


def forgetting(matrix: AccuracyMatrix) -> float | None:
    """Compute the mean drop of accuracy on earlier tasks from their best value before the last task.

    Args:
        matrix: the accuracy matrix.

    Returns:
        The mean over all tasks j but the last of max_{t < T-1} a_tj - a_{T-1,j}; None after a single task.

    References:
        A. Chaudhry, P. K. Dokania, T. Ajanthan and P. H. S. Torr. Riemannian Walk for Incremental Learning:
        Understanding Forgetting and Intransigence. ECCV 2018.

    Example:
        >>> forgetting([[90], [70, 85], [60, 65, 80]])
        25.0
    """
    last = len(matrix) - 1
    if last < 1:
        return None
    drops = [max(matrix[t][j] for t in range(j, last)) - matrix[last][j] for j in range(last)]
    return sum(drops) / last


def backward_transfer(matrix: AccuracyMatrix) -> float | None:
    """Compute the mean change of accuracy on earlier tasks since each was learned.

    Args:
        matrix: the accuracy matrix.

    Returns:
        The mean over all tasks j but the last of a_{T-1,j} - a_jj; None after a single task.

    References:
        D. Lopez-Paz and M. Ranzato. Gradient Episodic Memory for Continual Learning. NeurIPS 2017.

    Example:
        >>> backward_transfer([[90], [70, 85], [60, 65, 80]])
        -25.0
    """
    last = len(matrix) - 1
    if last < 1:
        return None
    return sum(matrix[last][j] - matrix[j][j] for j in range(last)) / last


def forward_transfer(matrix: AccuracyMatrix, untrained: Sequence[float] = ()) -> float | None:
    """Compute how much better later tasks are known before they are learned than by an untrained network.

    With one head that grows, no class of a task can be predicted before the task, neither by the network nor by an
    untrained one: the figure is 0 for every method. It can differ from 0 if `matrix` is complete, as that of a network
    with outputs for all classes from the start.

    Args:
        matrix: the accuracy matrix; accuracies that its rows do not have, on tasks that are still to come, are 0.
        untrained: accuracy of an untrained network on each task; by default 0.

    Returns:
        The mean over all tasks j but the first of a_{j-1,j} - b_j; None after a single task.

    References:
        D. Lopez-Paz and M. Ranzato. Gradient Episodic Memory for Continual Learning. NeurIPS 2017.

    Example:
        >>> forward_transfer([[90], [70, 85], [60, 65, 80]])
        0.0
        >>> forward_transfer([[90, 30], [70, 85]], untrained=[10, 20])
        10.0
    """
    num = len(matrix)
    if num < 2:
        return None
    before = [matrix[j - 1][j] if j < len(matrix[j - 1]) else 0.0 for j in range(1, num)]
    return (sum(before) - sum(untrained[1:num])) / (num - 1)


def intransigence(matrix: AccuracyMatrix, reference: AccuracyMatrix) -> float:
    """Compute how much worse each task is learned than by a reference that trains on all data seen so far.

    Negative values mean that a new task is learned better than by the reference, as without exemplars, where nothing
    holds the new classes back.

    Args:
        matrix: the accuracy matrix.
        reference: the accuracy matrix of the reference, such as joint training, with as many tasks or more.

    Returns:
        The mean over all tasks j of r_jj - a_jj.

    References:
        A. Chaudhry, P. K. Dokania, T. Ajanthan and P. H. S. Torr. Riemannian Walk for Incremental Learning:
        Understanding Forgetting and Intransigence. ECCV 2018.

    Example:
        >>> intransigence([[90], [70, 85]], reference=[[92], [88, 88]])
        2.5
    """
    return sum(reference[j][j] - row[j] for j, row in enumerate(matrix)) / len(matrix)


def memory_area(memory: Sequence[float], accuracies: Sequence[float], start: float, end: float) -> float | None:
    """Compute the mean accuracy over a range of memory sizes: the area under the curve, divided by the range.

    Accuracies between two sizes are interpolated linearly; those of equal sizes, such as of several seeds, are
    averaged.

    Args:
        memory: total memory of each run, network and exemplars.
        accuracies: accuracy of each run.
        start: lower end of the range.
        end: upper end of the range, above `start`.

    Returns:
        The mean accuracy; None if the sizes do not cover the range.

    References:
        D.-W. Zhou, Q.-W. Wang, Z.-H. Qi, H.-J. Ye, D.-C. Zhan and Z. Liu. Class-Incremental Learning: A Survey. TPAMI
        2024.

    Example:
        >>> memory_area([10, 20, 40], [50, 60, 70], start=10, end=40)
        61.666666666666664
        >>> memory_area([10, 20, 40], [50, 60, 70], start=0, end=40) is None
        True
    """
    by_size: dict[float, list[float]] = {}
    for size, value in zip(memory, accuracies, strict=True):
        by_size.setdefault(size, []).append(value)
    sizes = sorted(by_size)
    if len(sizes) < 2 or not sizes[0] <= start < end <= sizes[-1]:
        return None
    means = [sum(by_size[size]) / len(by_size[size]) for size in sizes]
    grid = sorted({start, end, *(size for size in sizes if start < size < end)})
    values = np.interp(grid, sizes, means).tolist()
    strips = zip(pairwise(grid), pairwise(values), strict=True)
    area: float = sum((right - left) * (low + high) / 2 for (left, right), (low, high) in strips)
    return area / (end - start)


def imbalance_ratio(counts: Tensor) -> float | None:
    """Compute the ratio of the largest to the smallest class of a training set.

    Args:
        counts: images per class (C).

    Returns:
        The ratio; None if a class has no image.

    Example:
        >>> from torch import tensor
        >>> imbalance_ratio(tensor([20, 20, 500]))
        25.0
    """
    return None if int(counts.min()) == 0 else int(counts.max()) / int(counts.min())
