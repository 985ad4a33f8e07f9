"""Figures computed from hits per class and from the accuracy matrix. Accuracies are percentages."""

from __future__ import annotations

from collections.abc import Sequence

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

    Example:
        >>> backward_transfer([[90], [70, 85], [60, 65, 80]])
        -25.0
    """
    last = len(matrix) - 1
    if last < 1:
        return None
    return sum(matrix[last][j] - matrix[j][j] for j in range(last)) / last


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
