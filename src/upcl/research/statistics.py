"""Statistics over runs: means with their uncertainty, and paired differences."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from scipy import stats

from upcl.core.metrics import intransigence
from upcl.training.evaluate import ReadingName

from .grouping import class_order_key, condition_fields
from .record import ByReading, Record

MetricName = Literal["a_last", "a_avg", "forgetting", "backward_transfer"]
MIN_RANKED = 6  # pairs from which on a rank test can fall below 0.05: its smallest p value is 2 / 2^pairs
ROUNDING = 1e-9  # differences whose spread is relatively smaller are equal but for rounding
REFERENCE = "joint"  # the method that intransigence is measured against
ANY_MEMORY = ("memory", "sharing", "exemplars")  # conditions that do not matter to a method that keeps all images


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
        effect_size: Cohen's d_z with Hedges' correction, the mean difference in standard deviations of the differences;
            None for fewer than three pairs or equal differences.
        rank_p_value: of Wilcoxon's two-sided signed-rank test; None for fewer than six pairs, with which it cannot fall
            below 0.05.

    Example:
        >>> PairedDifference(estimate_mean([1.0, 3.0]), p_value=0.3).difference.mean
        2.0
    """

    difference: MeanEstimate
    p_value: float | None
    effect_size: float | None = None
    rank_p_value: float | None = None


def evaluate_differences(differences: Sequence[float]) -> PairedDifference:
    """Estimate a mean difference, and test whether it is zero.

    Args:
        differences: one difference per pair, at least one.

    References:
        L. V. Hedges. Distribution Theory for Glass's Estimator of Effect Size and Related Estimators. Journal of
        Educational Statistics, 1981. F. Wilcoxon. Individual Comparisons by Ranking Methods. Biometrics Bulletin, 1945.

    Example:
        >>> found = evaluate_differences([1.0, 2.0, 3.0])
        >>> round(found.p_value, 3), round(found.effect_size, 2), found.rank_p_value
        (0.074, 1.13, None)
    """
    estimate, num = estimate_mean(differences), len(differences)
    if not estimate.std or estimate.std < ROUNDING * max(map(abs, differences)):
        return PairedDifference(estimate, None)
    effect = estimate.mean / estimate.std * _small_sample_factor(num - 1) if num > 2 else None
    rank_p_value = float(stats.wilcoxon(differences).pvalue) if num >= MIN_RANKED else None
    return PairedDifference(estimate, float(stats.ttest_1samp(differences, 0).pvalue), effect, rank_p_value)


def _small_sample_factor(freedom: int) -> float:
    """What removes the bias of a standardised mean: Gamma(m / 2) / (sqrt(m / 2) Gamma((m - 1) / 2))."""
    return math.exp(math.lgamma(freedom / 2) - math.lgamma((freedom - 1) / 2)) / math.sqrt(freedom / 2)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct p values for their number: below a level, at most that share of families has a single false finding.

    Args:
        p_values: the p values; None for what was not tested, which does not count.

    Returns:
        The corrected values, at most 1, in the same order.

    References:
        S. Holm. A Simple Sequentially Rejective Multiple Test Procedure. Scandinavian Journal of Statistics, 1979.

    Example:
        >>> holm([0.01, 0.04, None, 0.03])
        [0.03, 0.06, None, 0.06]
    """
    corrected: list[float | None] = [None] * len(p_values)
    tested = sorted((value, place) for place, value in enumerate(p_values) if value is not None)
    largest = 0.0
    for rank, (value, place) in enumerate(tested):
        largest = max(largest, min(1.0, value * (len(tested) - rank)))
        corrected[place] = largest
    return corrected


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
    expected = {pairing_key(record): metric_value(record, metric, reading) for record in reference}
    values = [(metric_value(record, metric, reading), expected.get(pairing_key(record))) for record in runs]
    differences = [a - b for a, b in values if a is not None and b is not None]
    return evaluate_differences(differences) if differences else None


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


def intransigence_values(runs: Sequence[Record], references: Sequence[Record], reading: ReadingName) -> list[float]:
    """Compute the intransigence of runs against joint training with the same seed and class order.

    Args:
        runs: runs of a method.
        references: runs of which those of `joint` serve as references, with equal data, tasks and backbone; as they
            keep all images, their memory need not be equal.
        reading: by which reading of the models.

    Returns:
        The intransigence of each run with a reference; none for joint training itself.

    Example:
        >>> from upcl import Request, run
        >>> stream = {"data": "synthetic:classes=4,train=4,test=4", "tasks": 2, "epochs": 1, "memory": "4"}
        >>> icarl, joint = (run(Request(method=name, **stream)) for name in ("icarl", "joint"))
        >>> learned, best = icarl.top1_matrix.head, joint.top1_matrix.head
        >>> intransigence_values([icarl], [joint], "head") == [
        ...     (best[0][0] - learned[0][0] + best[1][1] - learned[1][1]) / 2
        ... ]
        True
    """
    joint = {_reference_key(record): record.top1_matrix.head for record in references if record.method == REFERENCE}
    values = []
    for record in runs:
        matrix, best = record.top1_matrix[reading], joint.get(_reference_key(record))
        if record.method != REFERENCE and matrix is not None and best and len(best) >= len(matrix):
            values.append(intransigence(matrix, best))
    return values


def _reference_key(record: Record) -> tuple[Any, ...]:
    """What a run shares with its reference."""
    conditions = condition_fields(record)
    return *pairing_key(record), *(value for name, value in conditions.items() if name not in ANY_MEMORY)


def pairing_key(record: Record) -> tuple[Any, ...]:
    """What two runs that form a pair share: the seed and the class order.

    Args:
        record: the run.

    Example:
        >>> from upcl import Request, run
        >>> record = run(Request(method="finetune", data="synthetic:classes=2,train=2,test=2", tasks=1, epochs=1))
        >>> pairing_key(record)
        (0, 1993, ())
    """
    return record.seed, *class_order_key(record)
