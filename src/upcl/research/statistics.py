"""Records over seeds: means with their uncertainty, paired comparisons, and what keeps runs from being compared."""

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

from .config import RunConfig
from .record import ByReading, Record

Figure = Literal["a_last", "a_avg", "forgetting"]
PROTOCOL = (  # what must agree before two runs stand in one table, beside the recipe's fields
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
    """A mean over runs with its standard deviation and the half width of its 95 % interval (None for one run)."""

    mean: float
    deviation: float | None
    half_width: float | None
    num: int


def estimate(values: Sequence[float]) -> MeanEstimate:
    """Student's t interval of the mean: honest for the few seeds that people run."""
    mean, num = statistics.fmean(values), len(values)
    if num == 1:
        return MeanEstimate(mean, None, None, 1)
    deviation = statistics.stdev(values)
    return MeanEstimate(mean, deviation, float(stats.t.ppf(0.975, num - 1)) * deviation / math.sqrt(num), num)


@dataclass(frozen=True)
class Paired:
    """How much one method is ahead of another on the same seeds and class orders."""

    difference: MeanEstimate
    p_value: float | None


def paired(ours: Sequence[Record], theirs: Sequence[Record], figure: Figure, reading: ReadingName) -> Paired | None:
    """Differences on equal (seed, order); None where no pair exists. The test is the paired t test, two-sided."""
    other = {_draw(record): value_of(record, figure, reading) for record in theirs}
    values = [(value_of(record, figure, reading), other.get(_draw(record))) for record in ours]
    differences = [a - b for a, b in values if a is not None and b is not None]
    if not differences:
        return None
    varied = len(differences) > 1 and statistics.stdev(differences) > 0
    p_value = float(stats.ttest_1samp(differences, 0).pvalue) if varied else None
    return Paired(estimate(differences), p_value)


def value_of(record: Record, figure: Figure, reading: ReadingName) -> float | None:
    """One figure of a record by one reading; None where it does not exist."""
    by_reading: ByReading[float | None] = getattr(record, figure)
    return by_reading[reading]


def _draw(record: Record) -> tuple[Any, ...]:
    return record.seed, record.order_seed, tuple(record.config.order or ())


def title_of(record: Record) -> str:
    """A method's title; a method from outside of the package has its own name only."""
    name: str = record.method
    if name in VARIANTS:
        return VARIANTS[name].title
    return METHODS[name].title if name in METHODS else name


def by_setting(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Runs on the same data in the same tasks, under a title that says so."""
    settings: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        settings[f"{record.data}, {describe_tasks(record.task_sizes)}"].append(record)
    return dict(settings)


def describe_tasks(sizes: Sequence[int]) -> str:
    if len(set(sizes)) > 1:
        return f"tasks of {', '.join(map(str, sizes))}"
    return f"{len(sizes)} tasks" if len(sizes) > 1 else "one task"


def by_line(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Runs that differ only in seed and class order, under a name that says what distinguishes them from the others.

    A method whose configs differ between the runs is named with what does: its options, the memory, and so on.
    """
    methods: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        methods[record.method].append(record)
    known = [*METHODS, *VARIANTS]
    lines: dict[str, list[Record]] = {}
    for _, runs in sorted(methods.items(), key=lambda item: known.index(item[0]) if item[0] in known else len(known)):
        told = [{**_options(run.config), **protocol_of(run)} for run in runs]
        differing = _differing(told)
        for run, words in zip(runs, told, strict=True):
            extra = ", ".join(f"{key}={words.get(key, '-')}" for key in differing)
            lines.setdefault(f"{title_of(run)} ({extra})" if extra else title_of(run), []).append(run)
    return lines


def _options(config: RunConfig) -> dict[str, str]:
    return {key: str(value) for key, value in config.options.items()}


def protocol_of(record: Record) -> dict[str, str]:
    """What must agree before two runs can be compared, by name."""
    return {**conditions_of(record), **recipe_of(record)}


def conditions_of(record: Record) -> dict[str, str]:
    """The protocol but for the recipe, which is a method's own at full scale."""
    config = record.config
    told = {key: _text(getattr(config, key)) for key in PROTOCOL}
    told["memory"] = config.memory if "/" in config.memory else f"{config.memory} in all"
    return told


def recipe_of(record: Record) -> dict[str, str]:
    """A recipe's fields, each once if all tasks share it."""
    config, told = record.config, {}
    first, later = config.recipes.first, config.recipes.later
    for field in dataclasses.fields(first):
        a, b = (_text(getattr(recipe, field.name)) for recipe in (first, later))
        told[field.name] = a if a == b else f"{a} then {b}"
    return told


def _text(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _differing(told: Sequence[Mapping[str, str]]) -> list[str]:
    keys = dict.fromkeys(key for each in told for key in each)
    return [key for key in keys if len({each.get(key) for each in told}) > 1]


def disagreements(records: Sequence[Record]) -> dict[str, list[str]]:
    """Parts of the protocol in which the runs differ, with the values found: reasons not to compare them."""
    told = [protocol_of(record) for record in records]
    return {key: list(dict.fromkeys(each.get(key, "-") for each in told)) for key in _differing(told)}


def unequal_orders(lines: Mapping[str, Sequence[Record]]) -> bool:
    """Whether some line was run on other class orders than another."""
    return len({frozenset(_draw(run)[1:] for run in runs) for runs in lines.values()}) > 1
