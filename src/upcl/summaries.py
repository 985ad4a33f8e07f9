"""Records over seeds: means with their uncertainty, paired comparisons, and what keeps runs from being compared."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from scipy import stats

from .evaluate import ReadingName
from .records import Record

Figure = Literal["a_last", "a_avg", "forgetting"]

PROTOCOL = (  # what must agree before two runs stand in one table
    "data",
    "data_sha256",
    "task_sizes",
    "order",
    "memory",
    "sharing",
    "exemplars",
    "backbone",
    "recipes",
    "protocol",
    "select",
    "validation",
    "transform",
    "precision",
    "longtail",
)


@dataclass(frozen=True)
class Estimate:
    """A mean over runs with its standard deviation and the half width of its 95 % interval (None for one run)."""

    mean: float
    deviation: float | None
    half_width: float | None
    num: int

    def __str__(self) -> str:
        if self.half_width is None:
            return f"{self.mean:.1f} (one seed)"
        return f"{self.mean:.1f} ± {self.half_width:.1f}"


def estimate(values: Sequence[float]) -> Estimate:
    """Student's t interval of the mean: honest for the few seeds that people run."""
    mean, num = statistics.fmean(values), len(values)
    if num == 1:
        return Estimate(mean, None, None, 1)
    deviation = statistics.stdev(values)
    return Estimate(mean, deviation, float(stats.t.ppf(0.975, num - 1)) * deviation / math.sqrt(num), num)


@dataclass(frozen=True)
class Paired:
    """How much one method is ahead of another on the same seeds and class orders."""

    difference: Estimate
    p_value: float | None

    def __str__(self) -> str:
        told = "" if self.p_value is None else f", p = {self.p_value:.3f}"
        return f"{self.difference.mean:+.1f} over {self.difference.num} pairs{told}"


def paired(ours: Sequence[Record], theirs: Sequence[Record], figure: Figure, reading: ReadingName) -> Paired | None:
    """Differences on equal (seed, order); None where no pair exists. The test is the paired t test, two-sided."""
    other = {_draw(record): record[figure][reading] for record in theirs}
    pairs = [
        (record[figure][reading], other[_draw(record)])
        for record in ours
        if record[figure][reading] is not None and other.get(_draw(record)) is not None
    ]
    if not pairs:
        return None
    differences = [a - b for a, b in pairs]
    varied = len(pairs) > 1 and statistics.stdev(differences) > 0
    p_value = float(stats.ttest_1samp(differences, 0).pvalue) if varied else None
    return Paired(estimate(differences), p_value)


def _draw(record: Record) -> tuple[Any, ...]:
    return record["seed"], record["order_seed"], tuple(record["config"]["order"] or ())


def by_line(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Runs that differ only in seed and class order, under a name that says what distinguishes them from the others.

    A method whose options differ between the runs is named with the options that do.
    """
    methods: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        methods[record["method"]].append(record)
    lines: dict[str, list[Record]] = defaultdict(list)
    for name, runs in methods.items():
        options = [run["config"]["options"] for run in runs]
        differing = [key for key in options[0] if any(each.get(key) != options[0][key] for each in options)]
        for run in runs:
            told = ", ".join(f"{key}={run['config']['options'][key]}" for key in differing)
            lines[f"{name} ({told})" if told else name].append(run)
    return dict(lines)


def disagreements(records: Sequence[Record]) -> dict[str, list[Any]]:
    """Parts of the protocol in which the runs differ, with the values found: reasons not to compare them."""
    found: dict[str, list[Any]] = {}
    for key in PROTOCOL:
        values: list[Any] = []
        for record in records:
            value = _told(record["config"], key)
            if value not in values:
                values.append(value)
        if len(values) > 1:
            found[key] = values
    return found


def _told(config: Mapping[str, Any], key: str) -> Any:
    if key != "recipes":
        return config[key]
    return [f"{part['epochs']} epochs, batch {part['batch_size']}" for part in config["recipes"].values()]
