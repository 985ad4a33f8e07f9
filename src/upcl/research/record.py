"""What comes out of a run, as plain values. The schema is written down in docs/record.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from upcl.core import metrics
from upcl.training.evaluate import READINGS, Reading, ReadingName

from .config import RunConfig

SCHEMA = 2
MEASURED = ("seconds", "peak_memory_mb", "environment")


"""Keys whose values depend on the machine and the moment; all others are the same for every run of a config."""


Record = dict[str, Any]


@dataclass(frozen=True)
class TaskResult:
    """One reading-by-reading row of a record, as plain values that a checkpoint can hold."""

    readings: dict[ReadingName, dict[str, Any] | None]
    imbalance: float | None
    coherence: float | None
    exemplars: int
    seconds: float
    peak_memory_mb: float | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def without_confusion(self) -> TaskResult:
        """Of all tasks but the last only the figures are kept: a thousand classes make a million counts."""
        kept = {name: {**row, "confusion": None} if row else None for name, row in self.readings.items()}
        return replace(self, readings=kept)


def describe(reading: Reading | None, task_sizes: Sequence[int]) -> dict[str, Any] | None:
    """The figures of one reading after a task with these task sizes so far."""
    if reading is None:
        return None
    hits, totals, num_old = reading.confusion.diagonal(), reading.confusion.sum(1), sum(task_sizes[:-1])
    return {
        "top1": metrics.accuracy(hits, totals),
        "top1_by_class": metrics.accuracy_by_class(hits, totals),
        "top1_by_task": metrics.accuracy_by_task(hits, totals, task_sizes),
        "top5": metrics.accuracy(reading.top5, totals),
        "top5_by_task": metrics.accuracy_by_task(reading.top5, totals, task_sizes),
        "old": metrics.accuracy(hits[:num_old], totals[:num_old]) if num_old else None,
        "new": metrics.accuracy(hits[num_old:], totals[num_old:]),
        "confusion": reading.confusion.tolist(),
    }


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
    """The record of a run after the tasks that `results` holds."""

    def each(figure: Callable[[list[dict[str, Any]]], Any]) -> dict[ReadingName, Any]:
        """A figure of both readings; None for a reading that does not exist."""
        rows = {name: [result.readings[name] for result in results] for name in READINGS}
        return {name: figure(rs) if all(rs) else None for name, rs in rows.items()}  # type: ignore[arg-type]

    return {
        "schema": SCHEMA,
        "finished": len(results) == len(config.task_sizes),
        "method": config.method,
        "data": config.data,
        "classes": list(classes),
        "class_order": list(class_order),
        "task_sizes": list(config.task_sizes),
        "seed": config.seed,
        "order_seed": config.order_seed,
        "protocol": config.protocol,
        "select": config.select,
        "config": config.to_json(),
        "config_digest": config.digest(),
        "notes": list(notes),
        "a_last": each(lambda rows: rows[-1]["top1"]),
        "a_avg": each(lambda rows: metrics.average([row["top1"] for row in rows])),
        "forgetting": each(lambda rows: metrics.forgetting([row["top1_by_task"] for row in rows])),
        "backward_transfer": each(lambda rows: metrics.backward_transfer([row["top1_by_task"] for row in rows])),
        "top1": each(lambda rows: [row["top1"] for row in rows]),
        "top5": each(lambda rows: [row["top5"] for row in rows]),
        "top1_matrix": each(lambda rows: [row["top1_by_task"] for row in rows]),
        "top5_matrix": each(lambda rows: [row["top5_by_task"] for row in rows]),
        "top1_by_class": each(lambda rows: [row["top1_by_class"] for row in rows]),
        "old": each(lambda rows: [row["old"] for row in rows]),
        "new": each(lambda rows: [row["new"] for row in rows]),
        "confusion": each(lambda rows: rows[-1]["confusion"]),
        "imbalance_ratio": [result.imbalance for result in results],
        "coherence": [result.coherence for result in results],
        "exemplars": [result.exemplars for result in results],
        "seconds": [result.seconds for result in results],
        "peak_memory_mb": [result.peak_memory_mb for result in results],
        "weights_sha256": weights_sha256,
        "environment": dict(environment),
    }


def reproducible_part(record: Record) -> Record:
    """What must be equal for two runs of one config."""
    return {key: value for key, value in record.items() if key not in MEASURED}
