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
from .methods import METHODS, VARIANTS
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


def title_of(record: Record) -> str:
    """A method's title; a method from outside of the package has its own name only."""
    name: str = record["method"]
    if name in VARIANTS:
        return VARIANTS[name].title
    return METHODS[name].title if name in METHODS else name


def by_setting(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Runs on the same data in the same tasks, under a title that says so."""
    settings: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        sizes = record["task_sizes"]
        told = f"{len(sizes)} tasks" if len(set(sizes)) == 1 else f"tasks of {', '.join(map(str, sizes))}"
        settings[f"{record['data']}, {told}"].append(record)
    return dict(settings)


def by_line(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Runs that differ only in seed and class order, under a name that says what distinguishes them from the others.

    A method whose configs differ between the runs is named with what does: its options, the memory, and so on.
    """
    methods: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        methods[record["method"]].append(record)
    known = [*METHODS, *VARIANTS]
    lines: dict[str, list[Record]] = {}
    for _, runs in sorted(methods.items(), key=lambda item: known.index(item[0]) if item[0] in known else len(known)):
        told = [_words(run["config"]) for run in runs]
        differing = [key for key in told[0] if any(each.get(key) != told[0][key] for each in told)]
        for run, words in zip(runs, told, strict=True):
            extra = ", ".join(f"{key}={words[key]}" for key in differing)
            lines.setdefault(f"{title_of(run)} ({extra})" if extra else title_of(run), []).append(run)
    return lines


def _words(config: Mapping[str, Any]) -> dict[str, str]:
    """What distinguishes one line from another, by name."""
    told = {key: str(_told(config, key)) for key in PROTOCOL if key != "order"}
    return {**{key: str(value) for key, value in config["options"].items()}, **told}


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
    if key == "memory":
        return config[key] if "/" in config[key] else f"{config[key]} in all"
    if key != "recipes":
        return config[key]
    kept = {name: {k: v for k, v in part.items() if v} for name, part in config[key].items()}
    first, later = (", ".join(f"{k} {v}" for k, v in part.items()) for part in kept.values())
    return first if first == later else f"first: {first}; later: {later}"
