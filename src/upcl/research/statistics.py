"""Statistics over runs: means with their uncertainty, and paired differences."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from scipy import stats

from upcl.training.evaluate import ReadingName

from .grouping import class_order_key
from .record import ByReading, Record

MetricName = Literal["a_last", "a_avg", "forgetting"]


@dataclass(frozen=True)
class MeanEstimate:
    """A mean over runs with its uncertainty.

    Args:
        mean: the sample mean.
        std: the sample standard deviation; None for a single run.
        half_width: half the width of the 95 % confidence interval; None for a single run.
        num: number of runs.

    Example:
        >>> MeanEstimate(mean=12.0, std=2.0, half_width=4.97, num=3).num
        3
    """

    mean: float
    std: float | None
    half_width: float | None
    num: int


def estimate_mean(values: Sequence[float]) -> MeanEstimate:
    """Estimate a mean with a 95 % interval from Student's t distribution, which suits the usual handful of seeds.

    Args:
        values: one value per run, at least one.

    Example:
        >>> estimate = estimate_mean([10.0, 12.0, 14.0])
        >>> estimate.mean, estimate.std, round(estimate.half_width, 2)
        (12.0, 2.0, 4.97)
    """
    mean, num = statistics.fmean(values), len(values)
    if num == 1:
        return MeanEstimate(mean, None, None, 1)
    std = statistics.stdev(values)
    return MeanEstimate(mean, std, float(stats.t.ppf(0.975, num - 1)) * std / math.sqrt(num), num)


@dataclass(frozen=True)
class PairedDifference:
    """The mean difference between two methods on the same seeds and class orders.

    Args:
        difference: mean of the differences.
        p_value: of the two-sided paired t test; None for a single pair or equal differences.

    Example:
        >>> PairedDifference(estimate_mean([1.0, 3.0]), p_value=0.3).difference.mean
        2.0
    """

    difference: MeanEstimate
    p_value: float | None


def paired_difference(
    runs: Sequence[Record], reference: Sequence[Record], metric: MetricName, reading: ReadingName
) -> PairedDifference | None:
    """Compare runs pairwise with reference runs of the same seed and class order.

    Args:
        runs: runs of one configuration.
        reference: runs of the configuration that is subtracted.
        metric: what to compare.
        reading: by which reading of the models.

    Returns:
        The difference; None where no two runs form a pair.

    Example:
        >>> from upcl import Request, run
        >>> stream = {"data": "synthetic:classes=4,train=4,test=4", "tasks": 2, "epochs": 1, "memory": "4"}
        >>> icarl, upcl = (run(Request(method=name, **stream)) for name in ("icarl", "upcl"))
        >>> compared = paired_difference([icarl], [upcl], "a_last", "head")
        >>> compared.difference.mean == icarl.a_last.head - upcl.a_last.head
        True
    """
    expected = {_pairing_key(record): metric_value(record, metric, reading) for record in reference}
    values = [(metric_value(record, metric, reading), expected.get(_pairing_key(record))) for record in runs]
    differences = [a - b for a, b in values if a is not None and b is not None]
    if not differences:
        return None
    varied = len(differences) > 1 and statistics.stdev(differences) > 0
    p_value = float(stats.ttest_1samp(differences, 0).pvalue) if varied else None
    return PairedDifference(estimate_mean(differences), p_value)


def metric_value(record: Record, metric: MetricName, reading: ReadingName) -> float | None:
    """Look up a metric of a run by one reading; None where it does not exist.

    Args:
        record: the run.
        metric: which metric.
        reading: by which reading of the model.

    Example:
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="finetune", data=data, tasks=2, epochs=1))
        >>> metric_value(record, "a_last", "head") == record.a_last.head, metric_value(record, "a_last", "nme")
        (True, None)
    """
    by_reading: ByReading[float | None] = getattr(record, metric)
    return by_reading[reading]


def _pairing_key(record: Record) -> tuple[Any, ...]:
    return record.seed, *class_order_key(record)
