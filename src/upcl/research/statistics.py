"""Statistics over runs: means with their uncertainty, paired differences, and what makes runs incomparable."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from scipy import stats

from upcl.methods.registry import METHODS, VARIANTS
from upcl.training.evaluate import ReadingName

from .record import ByReading, Record

MetricName = Literal["a_last", "a_avg", "forgetting"]
CONDITIONS = (  # fields of a config that must agree before two runs are compared; those of the recipe come on top
    "data",
    "data_sha256",
    "task_sizes",
    "memory",
    "sharing",
    "exemplars",
    "backbone",
    "protocol",
    "select",
    "validation",
    "transform",
    "precision",
    "longtail",
)


@dataclass(frozen=True)
class MeanEstimate:
    """A mean over runs with its uncertainty.

    Args:
        mean: the sample mean.
        std: the sample standard deviation; None for a single run.
        half_width: half the width of the 95 % confidence interval; None for a single run.
        num: number of runs.
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
    """
    by_reading: ByReading[float | None] = getattr(record, metric)
    return by_reading[reading]


def _pairing_key(record: Record) -> tuple[Any, ...]:
    return record.seed, *_class_order(record)


def _class_order(record: Record) -> tuple[Any, ...]:
    return record.order_seed, tuple(record.config.order or ())


def method_title(record: Record) -> str:
    """The title of a run's method; a method from outside of the package has only its name.

    Args:
        record: the run.
    """
    name = record.method
    if name in VARIANTS:
        return VARIANTS[name].title
    return METHODS[name].title if name in METHODS else name


def group_by_setting(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Group runs on the same data set with the same split into tasks.

    Args:
        records: the runs.

    Returns:
        The groups by a title such as "digits, 5 tasks".
    """
    settings: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        settings[f"{record.data}, {describe_tasks(record.task_sizes)}"].append(record)
    return dict(settings)


def describe_tasks(task_sizes: Sequence[int]) -> str:
    """Describe a split into tasks.

    Args:
        task_sizes: number of classes of each task.

    Example:
        >>> describe_tasks([2, 2, 2]), describe_tasks([4, 3, 3]), describe_tasks([10])
        ('3 tasks', 'tasks of 4, 3, 3', 'one task')
    """
    if len(set(task_sizes)) > 1:
        return f"tasks of {', '.join(map(str, task_sizes))}"
    return f"{len(task_sizes)} tasks" if len(task_sizes) > 1 else "one task"


def group_runs(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Group runs that differ only in seed and class order: the rows of a table.

    Args:
        records: the runs.

    Returns:
        The groups by the title of the method. Where a method was run with several configurations, the title lists what
        distinguishes them: options, memory, and so on.

    Example:
        >>> from upcl import Request, run
        >>> stream = {"data": "synthetic:classes=4,train=2,test=2", "tasks": 2, "epochs": 1}
        >>> records = [run(Request(method="icarl", memory=memory, **stream)) for memory in ("4", "8")]
        >>> list(group_runs(records))
        ['iCaRL (memory=4 in total)', 'iCaRL (memory=8 in total)']
    """
    methods: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        methods[record.method].append(record)
    known = [*METHODS, *VARIANTS]
    groups: dict[str, list[Record]] = {}
    for _, runs in sorted(methods.items(), key=lambda item: known.index(item[0]) if item[0] in known else len(known)):
        fields = [{**_options(run), **comparison_fields(run)} for run in runs]
        differing = _differing_keys(fields)
        for run, values in zip(runs, fields, strict=True):
            suffix = ", ".join(f"{key}={values.get(key, '-')}" for key in differing)
            groups.setdefault(f"{method_title(run)} ({suffix})" if suffix else method_title(run), []).append(run)
    return groups


def _options(record: Record) -> dict[str, str]:
    return {key: str(value) for key, value in record.config.options.items()}


def comparison_fields(record: Record) -> dict[str, str]:
    """Everything that must agree before two runs can be compared, by name.

    Args:
        record: the run.
    """
    return {**condition_fields(record), **recipe_fields(record)}


def condition_fields(record: Record) -> dict[str, str]:
    """The conditions of a run without its recipe, which is the method's own at full scale.

    Args:
        record: the run.
    """
    config = record.config
    fields = {key: _text(getattr(config, key)) for key in CONDITIONS}
    fields["memory"] = config.memory if "/" in config.memory else f"{config.memory} in total"
    return fields


def recipe_fields(record: Record) -> dict[str, str]:
    """The fields of a run's recipe, each with one value if all tasks share it, else with two.

    Args:
        record: the run.
    """
    recipes = record.config.recipes
    fields = {}
    for field in dataclasses.fields(recipes.first):
        first, later = (_text(getattr(recipe, field.name)) for recipe in (recipes.first, recipes.later))
        fields[field.name] = first if first == later else f"{first} then {later}"
    return fields


def _text(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _differing_keys(fields: Sequence[Mapping[str, str]]) -> list[str]:
    keys = dict.fromkeys(key for each in fields for key in each)
    return [key for key in keys if len({each.get(key) for each in fields}) > 1]


def differing_fields(records: Sequence[Record]) -> dict[str, list[str]]:
    """Find the conditions and recipe fields in which runs differ: reasons not to compare them.

    Args:
        records: the runs.

    Returns:
        The values that occur, by field.
    """
    fields = [comparison_fields(record) for record in records]
    return {key: list(dict.fromkeys(each.get(key, "-") for each in fields)) for key in _differing_keys(fields)}


def class_orders_differ(groups: Mapping[str, Sequence[Record]]) -> bool:
    """Whether one group of runs has other class orders than another.

    Args:
        groups: runs by configuration, as `group_runs` returns them.
    """
    return len({frozenset(map(_class_order, runs)) for runs in groups.values()}) > 1
