"""Methods compared on the same seeds and class orders: differences, intervals and corrected p values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from upcl.core.errors import UserError
from upcl.training.evaluate import READINGS, ReadingName

from .grouping import recipe_fields
from .pairing import differing_conditions, require_both, runs_by_conditions, runs_by_method, runs_by_pair, unpaired
from .record import Record
from .statistics import (
    ANY_MEMORY,
    MIN_RANKED,
    MetricName,
    PairedDifference,
    evaluate_differences,
    holm,
    metric_value,
)

Compared = Literal["a_last", "a_avg", "forgetting", "seconds", "memory"]
COMPARED: tuple[Compared, ...] = get_args(Compared)
ACCURACIES: dict[Compared, MetricName] = {"a_last": "a_last", "a_avg": "a_avg", "forgetting": "forgetting"}
TITLES: dict[Compared, str] = {
    "a_last": "A_last",
    "a_avg": "A_avg",
    "forgetting": "forgetting",
    "seconds": "seconds",
    "memory": "total MB",
}
LEVEL = 0.05
SAME_SIZE = 0.01  # total memories that differ by at most this share are equal
MACHINE = ("platform", "device", "threads", "compiled", "torch")  # of the environment; training seconds depend on it


@dataclass(frozen=True)
class Side:
    """Runs that are compared with others.

    Args:
        name: what to call them.
        records: the runs.

    Example:
        >>> Side("UPCL", ()).name
        'UPCL'
    """

    name: str
    records: Sequence[Record]


@dataclass(frozen=True)
class ComparedMetric:
    """One metric of two sides, on the pairs that have it.

    Args:
        metric: which metric.
        reading: by which reading of the models; None for what does not depend on it.
        first: mean of the first side.
        second: mean of the second side.
        paired: the difference, first minus second.
        corrected_p_value: Holm's correction for all tests that were made together.

    Example:
        >>> metric = ComparedMetric("a_last", "head", 46.0, 43.0, evaluate_differences([3.0]))
        >>> metric.verdict("UPCL+", "LA")
        'A_last head: one pair only, no interval; nothing can be concluded about other seeds.'
    """

    metric: Compared
    reading: ReadingName | None
    first: float
    second: float
    paired: PairedDifference
    corrected_p_value: float | None = None

    @property
    def title(self) -> str:
        """The metric, with the reading."""
        return f"{TITLES[self.metric]} {self.reading}" if self.reading else TITLES[self.metric]

    def verdict(self, first: str, second: str) -> str:
        """Say what can be concluded, and what cannot.

        Args:
            first: name of the first side.
            second: name of the second side.
        """
        difference, p_value, corrected = self.paired.difference, self.paired.p_value, self.corrected_p_value
        if difference.num == 1:
            return f"{self.title}: one pair only, no interval; nothing can be concluded about other seeds."
        if p_value is None or difference.half_width is None:
            size = f"differ by {difference.mean:+.4g}" if difference.mean else "are equal"
            return f"{self.title}: {first} and {second} {size} in all {difference.num} pairs."
        low, high = difference.mean - difference.half_width, difference.mean + difference.half_width
        interval = f"95 % interval {low:+.1f} to {high:+.1f}, {difference.num} pairs"
        if p_value >= LEVEL:
            return f"{self.title}: {first} and {second} cannot be distinguished ({interval}, p = {p_value:.3f})."
        relation = "higher" if difference.mean > 0 else "lower"
        found = f"{self.title}: {first} is {relation} than {second} by {abs(difference.mean):.1f} ({interval}, "
        found += f"p = {p_value:.3f}"
        if corrected is None or corrected == p_value:
            return f"{found})."
        if corrected < LEVEL:
            return f"{found}, corrected {corrected:.3f})."
        return f"{found}), but not if all tests are corrected for (p = {corrected:.3f})."


@dataclass(frozen=True)
class Contrast:
    """Two sides compared under equal conditions.

    Args:
        first: name of the first side.
        second: name of the second side, which is subtracted.
        pairs: the runs of each pair.
        metrics: the metrics that both sides have.
        notes: what a reader must know.
        method: the method that both sides are compared by; empty if each side is one method.

    Example:
        >>> Contrast("UPCL+", "LA", (), (), ()).title
        'UPCL+ and LA'
    """

    first: str
    second: str
    pairs: tuple[tuple[Record, Record], ...]
    metrics: tuple[ComparedMetric, ...]
    notes: tuple[str, ...]
    method: str = ""

    @property
    def title(self) -> str:
        """The method, if it is the same on both sides, and their names, with the data and the number of tasks."""
        names = f"{self._prefix}{self.first} and {self.second}"
        if not self.pairs:
            return names
        config = self.pairs[0][0].config
        return f"{names}: {config.data}, {len(config.task_sizes)} tasks, memory {config.memory}"

    @property
    def verdicts(self) -> list[str]:
        """What can be concluded from each metric."""
        return [self._prefix + metric.verdict(self.first, self.second) for metric in self.metrics]

    @property
    def _prefix(self) -> str:
        return f"{self.method}: " if self.method else ""


def compare(
    sides: Sequence[Side],
    metrics: Sequence[Compared] = COMPARED,
    readings: Sequence[ReadingName] = READINGS,
    *,
    equal_total: bool = False,
) -> list[Contrast]:
    """Compare the first side with every other one, on runs of the same seed and class order under equal conditions.

    If a side holds runs of several methods, each method that both sides hold is compared with itself. Recipes may
    differ, and a note says so. P values are corrected for the number of all tests that are made.

    Args:
        sides: at least two.
        metrics: what to compare.
        readings: by which readings of the models.
        equal_total: the number of exemplars may differ if network and exemplars together take equal memory, up to one
            percent.

    Raises:
        UserError: if no two runs form a pair, or a side holds runs of several configurations.

    Example:
        >>> from upcl import Request, run
        >>> stream = {"data": "synthetic:classes=4,train=4,test=4", "tasks": 2, "epochs": 1, "memory": "4"}
        >>> icarl, wa = (run(Request(method=name, **stream)) for name in ("icarl", "wa"))
        >>> (contrast,) = compare([Side("iCaRL", [icarl]), Side("WA", [wa])])
        >>> contrast.metrics[0].paired.difference.mean == icarl.a_last.head - wa.a_last.head
        True
    """
    found = [
        contrast
        for second in sides[1:]
        for contrast in _by_method(sides[0], second, metrics, readings, equal_total=equal_total)
    ]
    corrected = iter(holm([metric.paired.p_value for contrast in found for metric in contrast.metrics]))
    return [
        dataclasses.replace(
            contrast,
            metrics=tuple(dataclasses.replace(each, corrected_p_value=next(corrected)) for each in contrast.metrics),
        )
        for contrast in found
    ]


def _by_method(
    first: Side, second: Side, metrics: Sequence[Compared], readings: Sequence[ReadingName], *, equal_total: bool
) -> list[Contrast]:
    """The contrasts of two sides; one by one, if a side holds several methods, those of each method that both hold."""
    left, right = (runs_by_method(side.records) for side in (first, second))
    if len(left) == len(right) == 1:
        return _contrasts(first, second, metrics, readings, equal_total=equal_total)
    found, problems = list[Contrast](), list[str]()
    for method in dict.fromkeys([*left, *right]):
        try:
            runs = require_both(method, (first.name, left), (second.name, right))
            a, b = (Side(side.name, records) for side, records in zip((first, second), runs, strict=True))
            contrasts = _contrasts(a, b, metrics, readings, equal_total=equal_total)
            found += [dataclasses.replace(contrast, method=method) for contrast in contrasts]
        except UserError as error:
            problems.append(f"{method}: {error}")
    if not found:
        raise UserError("no method can be compared:\n  " + "\n  ".join(problems))
    left_out = [f"Left out: {problem}." for problem in problems]
    return [dataclasses.replace(contrast, notes=(*contrast.notes, *left_out)) for contrast in found]


def _contrasts(
    first: Side, second: Side, metrics: Sequence[Compared], readings: Sequence[ReadingName], *, equal_total: bool
) -> list[Contrast]:
    """One contrast for each set of conditions under which both sides were run."""
    ignored = ANY_MEMORY if equal_total else ()
    left, right = (runs_by_conditions(side.records, ignored) for side in (first, second))
    shared = [conditions for conditions in left if conditions in right]
    if not shared:
        reasons = differing_conditions(left, right)
        raise UserError(f"{first.name} and {second.name} were not run under equal conditions: {reasons}")
    apart = len(first.records) + len(second.records) - sum(len(left[each]) + len(right[each]) for each in shared)
    contrasts, lonely = list[Contrast](), list[str]()
    for conditions in shared:
        runs, others = (runs_by_pair(side.name, each[conditions]) for side, each in ((first, left), (second, right)))
        pairs = tuple((runs[key], others[key]) for key in runs if key in others)
        alone = unpaired([(first.name, runs), (second.name, others)])
        lonely += alone
        if pairs:
            if equal_total:
                _require_equal_total(first, second, pairs)
            found = _compared(pairs, metrics, readings)
            notes = _notes(first, second, pairs)
            if "memory" in metrics and not any(each.metric == "memory" for each in found):
                notes.append("Total memory is not known: the records are of an earlier version.")
            if alone:
                notes.append(f"Left out, without a partner: {'; '.join(alone)}.")
            if apart:
                notes.append(f"Left out, since the other side was not run under their conditions: {apart} runs.")
            contrasts.append(Contrast(first.name, second.name, pairs, tuple(found), tuple(notes)))
    if not contrasts:
        raise UserError(f"no seed and class order of {first.name} is one of {second.name}: {'; '.join(lonely)}")
    return contrasts


def _require_equal_total(first: Side, second: Side, pairs: Sequence[tuple[Record, Record]]) -> None:
    for a, b in pairs:
        sizes = _value(a, "memory", "head"), _value(b, "memory", "head")
        if sizes[0] is None or sizes[1] is None:
            raise UserError(
                "some runs have no total memory in their record, being of an earlier version: run them again"
            )
        if abs(sizes[0] - sizes[1]) > SAME_SIZE * max(sizes[0], sizes[1]):
            raise UserError(
                f"total memory differs ({first.name}: {sizes[0]:.2f} MB; {second.name}: {sizes[1]:.2f} MB): run both "
                f"with --memory {max(sizes[0], sizes[1]) * 10**6:.0f}B-total"
            )


def _notes(first: Side, second: Side, pairs: Sequence[tuple[Record, Record]]) -> list[str]:
    notes = []
    a, b = pairs[0]
    recipes = recipe_fields(a), recipe_fields(b)
    if names := [name for name in recipes[0] if recipes[0][name] != recipes[1][name]]:
        values = "; ".join(f"{name} {recipes[0][name]} and {recipes[1][name]}" for name in names)
        notes.append(f"Trained with different recipes ({first.name} and {second.name}): {values}.")
    machines = {tuple(str(run.environment.get(key)) for key in MACHINE) for pair in pairs for run in pair}
    if len(machines) > 1:
        notes.append("The runs were made in different environments: seconds are not comparable.")
    if len(pairs) < 2:
        notes.append("One pair only: an interval and tests need two.")
    elif len(pairs) < MIN_RANKED:
        notes.append(
            f"No rank test: with {len(pairs)} pairs its p value cannot fall below {2 / 2 ** len(pairs):.2g}; "
            f"{MIN_RANKED} are needed for {LEVEL}. The t test assumes normally distributed differences."
        )
    for run in (run for pair in pairs for run in pair):
        notes += [note for note in run.notes if note not in notes]
    return notes


def _compared(
    pairs: Sequence[tuple[Record, Record]], metrics: Sequence[Compared], readings: Sequence[ReadingName]
) -> list[ComparedMetric]:
    found = []
    for metric in metrics:
        for reading in readings if metric in ACCURACIES else readings[:1]:
            values = [(_value(a, metric, reading), _value(b, metric, reading)) for a, b in pairs]
            known = [(a, b) for a, b in values if a is not None and b is not None]
            if known:
                first, second = (sum(side) / len(known) for side in zip(*known, strict=True))
                paired = evaluate_differences([a - b for a, b in known])
                found.append(ComparedMetric(metric, reading if metric in ACCURACIES else None, first, second, paired))
    return found


def _value(record: Record, metric: Compared, reading: ReadingName) -> float | None:
    if metric in ACCURACIES:
        return metric_value(record, ACCURACIES[metric], reading)
    if metric == "seconds":
        return sum(record.seconds)
    return record.total_bytes[-1] / 10**6 if record.total_bytes else None


def difference_curves(contrast: Contrast, reading: ReadingName) -> list[list[float]]:
    """The difference in accuracy on all classes seen after each task, of each pair.

    Args:
        contrast: the two sides.
        reading: by which reading of the models.

    Example:
        >>> difference_curves(Contrast("UPCL+", "LA", (), (), ()), "head")
        []
    """
    curves = [(first.top1[reading], second.top1[reading]) for first, second in contrast.pairs]
    return [[a - b for a, b in zip(x, y, strict=False)] for x, y in curves if x is not None and y is not None]
