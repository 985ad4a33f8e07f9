"""Every figure that comes out of the confusion matrices and the accuracy matrix. Accuracies are in percent."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

AccuracyMatrix = Sequence[Sequence[float]]


"""Row t, column j: accuracy on the classes of task j after learning task t (j <= t)."""


def accuracy(hits: Tensor, totals: Tensor) -> float:
    """Share of all images that were hit, from hits and images of each class (micro average)."""
    return 100 * int(hits.sum()) / int(totals.sum())


def accuracy_by_task(hits: Tensor, totals: Tensor, task_sizes: Sequence[int]) -> list[float]:
    """One row of the accuracy matrix, by the real borders of the tasks."""
    sizes = list(task_sizes)
    return [accuracy(h, n) for h, n in zip(hits.split(sizes), totals.split(sizes), strict=True)]


def accuracy_by_class(hits: Tensor, totals: Tensor) -> list[float | None]:
    """Of each class; None for a class without images."""
    pairs = zip(hits.tolist(), totals.tolist(), strict=True)
    return [100 * hit / total if total else None for hit, total in pairs]


def forgetting(matrix: AccuracyMatrix) -> float | None:
    """Mean over earlier tasks of (best accuracy before the last task - accuracy now); None after one task."""
    last = len(matrix) - 1
    if last < 1:
        return None
    drops = [max(matrix[t][j] for t in range(j, last)) - matrix[last][j] for j in range(last)]
    return sum(drops) / last


def backward_transfer(matrix: AccuracyMatrix) -> float | None:
    """Mean over earlier tasks of (accuracy now - accuracy when the task was learned); None after one task."""
    last = len(matrix) - 1
    if last < 1:
        return None
    return sum(matrix[last][j] - matrix[j][j] for j in range(last)) / last


def average_accuracy(curve: Sequence[float]) -> float:
    """A_avg: the plain mean of A_0 .. A_{T-1}, the first task included."""
    return sum(curve) / len(curve)


def imbalance_ratio(counts: Tensor) -> float | None:
    """Largest over smallest class count of a training set; None where a seen class has no image at all."""
    return None if int(counts.min()) == 0 else int(counts.max()) / int(counts.min())
