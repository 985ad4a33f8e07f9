"""From prediction counts to figures: what each task contributes to a record, and the record they make up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch import Tensor

from upcl.core import metrics
from upcl.training.accounting import Cost
from upcl.training.evaluate import READINGS, Reading, ReadingName

from .config import RunConfig
from .record import COSTS, Record

MAX_DENSE = 1000  # classes of a confusion matrix that is stored with its zeros


@dataclass(frozen=True)
class ReadingFigures:
    """The figures of one reading after one task; accuracies are in percent.

    Args:
        top1: accuracy on all classes seen.
        top1_by_class: accuracy on each class; None for a class without test images.
        top1_by_task: accuracy on the classes of each task.
        top5: share of images whose class is among the five highest scores.
        top5_by_task: the same for the classes of each task.
        old: accuracy on the classes of earlier tasks; None in the first task.
        new: accuracy on the classes of the latest task.
        confusion: row i, column j: images of class i predicted as class j, or the entries that are not zero if there
            are more than 1,000 classes; None if it was dropped.

    Example:
        >>> import torch
        >>> counts = Reading(confusion=torch.tensor([[3, 1], [0, 4]]).to_sparse(), top5=torch.tensor([4, 4]))
        >>> ReadingFigures.of(counts, task_sizes=[1, 1]).top1_by_task
        [75.0, 100.0]
    """

    top1: float
    top1_by_class: list[float | None]
    top1_by_task: list[float]
    top5: float
    top5_by_task: list[float]
    old: float | None
    new: float
    confusion: list[list[int]] | dict[str, list[int]] | None

    @staticmethod
    def of(reading: Reading, task_sizes: Sequence[int]) -> ReadingFigures:
        """Compute the figures from prediction counts.

        Args:
            reading: the counts over the test images of all classes seen.
            task_sizes: number of classes of each task so far.
        """
        hits, totals, num_old = reading.hits, reading.totals, sum(task_sizes[:-1])
        return ReadingFigures(
            top1=metrics.accuracy(hits, totals),
            top1_by_class=metrics.accuracy_by_class(hits, totals),
            top1_by_task=metrics.accuracy_by_task(hits, totals, task_sizes),
            top5=metrics.accuracy(reading.top5, totals),
            top5_by_task=metrics.accuracy_by_task(reading.top5, totals, task_sizes),
            old=metrics.accuracy(hits[:num_old], totals[:num_old]) if num_old else None,
            new=metrics.accuracy(hits[num_old:], totals[num_old:]),
            confusion=_stored(reading.confusion),
        )


def _stored(confusion: Tensor) -> Any:
    """The matrix as plain values: `SparseCounts` if it is large."""
    if len(confusion) <= MAX_DENSE:
        return confusion.to_dense().tolist()
    labels, predicted = confusion.indices().tolist()
    return {"labels": labels, "predicted": predicted, "counts": confusion.values().tolist()}


@dataclass(frozen=True)
class TaskResult:
    """What one task contributes to a record, as plain values that a checkpoint can hold.

    Args:
        readings: the figures by reading; None for a reading that does not exist.
        imbalance: images of the largest class over those of the smallest in training.
        coherence: largest cosine between two class vectors of the head.
        exemplars: number of exemplars kept.
        seconds: training time.
        peak_memory_mb: peak memory in MiB.
        cost: what the method keeps and computes; None in checkpoints of version 0.1.

    Example:
        >>> result = TaskResult({"head": None, "nme": None}, 1.0, None, exemplars=20, seconds=2.5, peak_memory_mb=None)
        >>> TaskResult.from_json(result.to_json()) == result
        True
    """

    readings: dict[ReadingName, ReadingFigures | None]
    imbalance: float | None
    coherence: float | None
    exemplars: int
    seconds: float
    peak_memory_mb: float | None
    cost: Cost | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> TaskResult:
        """The inverse of `to_json`.

        Args:
            value: what `to_json` returned.
        """
        readings = {name: ReadingFigures(**row) if row else None for name, row in value["readings"].items()}
        cost = Cost(**found) if (found := value.get("cost")) else None
        return TaskResult(**{**value, "readings": readings, "cost": cost})

    def without_confusion(self) -> TaskResult:
        """Confusion counts are kept for the last task only: a thousand classes make a million counts."""
        kept = {name: replace(row, confusion=None) if row else None for name, row in self.readings.items()}
        return replace(self, readings=kept)


def make_record(
    config: RunConfig,
    *,
    class_order: Sequence[int],
    classes: Sequence[str],
    results: Sequence[TaskResult],
    weights_sha256: str,
    notes: Sequence[str],
    environment: Mapping[str, Any],
) -> Record:
    """Assemble the record of a run.

    Args:
        config: the resolved configuration.
        class_order: labels of the data set in class order.
        classes: class names in class order.
        results: what each finished task contributed.
        weights_sha256: digest of all weights.
        notes: what a reader must know.
        environment: versions, device and threads.

    Example:
        >>> import torch
        >>> from upcl.research.config import Request, resolve
        >>> request = Request(method="finetune", data="digits", tasks=1)
        >>> config = resolve(request, request.load_dataset(), request.method_class)
        >>> counts = Reading(confusion=torch.eye(10).long().to_sparse(), top5=torch.ones(10).long())
        >>> figures = ReadingFigures.of(counts, task_sizes=[10])
        >>> result = TaskResult({"head": figures, "nme": None}, 1.0, None, 0, seconds=2.5, peak_memory_mb=None)
        >>> record = make_record(
        ...     config,
        ...     class_order=range(10),
        ...     classes="0123456789",
        ...     results=[result],
        ...     weights_sha256="",
        ...     notes=[],
        ...     environment={},
        ... )
        >>> record.finished, record.a_last.head
        (True, 100.0)
    """
    summaries = {}
    for name in READINGS:
        rows = [row for result in results if (row := result.readings.get(name))]
        summaries[name] = _summarize(rows) if len(rows) == len(results) else {}
    by_reading = {
        figure: {name: summaries[name].get(figure) for name in READINGS}
        for figure in dict.fromkeys(figure for summary in summaries.values() for figure in summary)
    }
    costs = [result.cost for result in results if result.cost]
    by_task = {name: [getattr(cost, name) for cost in costs] for name in COSTS} if len(costs) == len(results) else {}
    by_reading["confusion"] = {"head": summaries["head"]["confusion"], "nme": None}  # the largest part of a record
    return Record(
        finished=len(results) == len(config.task_sizes),
        method=config.method,
        data=config.data,
        classes=list(classes),
        class_order=list(class_order),
        task_sizes=list(config.task_sizes),
        seed=config.seed,
        order_seed=config.order_seed,
        protocol=config.protocol,
        select=config.select,
        config=config,
        config_digest=config.digest(),
        notes=list(notes),
        imbalance_ratio=[result.imbalance for result in results],
        coherence=[result.coherence for result in results],
        exemplars=[result.exemplars for result in results],
        seconds=[result.seconds for result in results],
        peak_memory_mb=[result.peak_memory_mb for result in results],
        weights_sha256=weights_sha256,
        environment=dict(environment),
        **by_task,
        **by_reading,
    )


def _summarize(rows: Sequence[ReadingFigures]) -> dict[str, Any]:
    """All figures of one reading."""
    curve = [row.top1 for row in rows]
    matrix = [row.top1_by_task for row in rows]
    return {
        "a_last": curve[-1],
        "a_avg": metrics.average_accuracy(curve),
        "forgetting": metrics.forgetting(matrix),
        "backward_transfer": metrics.backward_transfer(matrix),
        "top1": curve,
        "top5": [row.top5 for row in rows],
        "top1_matrix": matrix,
        "top5_matrix": [row.top5_by_task for row in rows],
        "top1_by_class": [row.top1_by_class for row in rows],
        "old": [row.old for row in rows],
        "new": [row.new for row in rows],
        "confusion": rows[-1].confusion,
    }
