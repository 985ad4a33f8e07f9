"""Timing on a noisy machine: candidates are measured in turn; results are medians and quartiles of their ratios."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch

Workload = Callable[[], Any]
Times = Mapping[str, Sequence[float]]
TOLERANCE = 0.15  # of an exponent that is fitted to noisy times


@dataclass(frozen=True)
class Measurement:
    """One row of the table: a value with its quartiles, and its target if it has one.

    Args:
        group: group of measurements that it belongs to.
        name: what was measured.
        ours: our candidate with its median time.
        other: what it is compared with, with its median time.
        value: median of a ratio, time or exponent.
        low: first quartile.
        high: third quartile.
        unit: unit of the value.
        rule: how the value relates to its target.
        target: the target, if there is one.

    Example:
        >>> quartiles = 2.0, 1.9, 2.1
        >>> Measurement("steps", "a step", "ours 2 s", "bare 1 s", *quartiles, "x", "at most", target=1.25).met
        False
    """

    group: str
    name: str
    ours: str
    other: str
    value: float
    low: float
    high: float
    unit: str
    rule: Literal["at most", "at least", ""] = ""
    target: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target."""
        if self.target is None:
            return None
        return self.value <= self.target if self.rule == "at most" else self.value >= self.target


def time_in_turns(workloads: Mapping[str, Workload], repeats: int) -> dict[str, list[float]]:
    """Time workloads in turn, so that changes in the speed of the machine affect all of them.

    Args:
        workloads: functions to time, by name.
        repeats: number of rounds; a first round for warming up is not counted.

    Returns:
        The seconds of each round, by name.

    Example:
        >>> times = time_in_turns({"sum": lambda: sum(range(10))}, repeats=3)
        >>> len(times["sum"])
        3
    """
    seconds: dict[str, list[float]] = {name: [] for name in workloads}
    for _ in range(repeats + 1):
        for name, workload in workloads.items():
            start = time.perf_counter()
            workload()
            seconds[name].append(time.perf_counter() - start)
    return {name: times[1:] for name, times in seconds.items()}


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Compute the median, the first and the third quartile.

    Args:
        values: at least one value.

    Example:
        >>> quartiles([1.0, 2.0, 3.0])
        (2.0, 1.5, 2.5)
    """
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, low, high


def overhead(group: str, name: str, times: Times, target: float | None = None) -> Measurement:
    """Compare a workload with its lower limit: first time divided by second time, round by round.

    Args:
        group: group of measurements.
        name: what was measured.
        times: seconds of each round of two workloads, ours first.
        target: the largest ratio allowed.

    Example:
        >>> overhead("steps", "a step", {"ours": [1.1], "bare": [1.0]}, target=1.25).met
        True
    """
    (ours, seconds), (other, other_seconds) = times.items()
    ratios = quartiles([a / b for a, b in zip(seconds, other_seconds, strict=True)])
    return Measurement(
        group, name, _median_text(ours, seconds), _median_text(other, other_seconds), *ratios, "x", "at most", target
    )


def speedup(group: str, name: str, times: Times, target: float | None = None) -> Measurement:
    """Compare a workload with a slower one: second time divided by first time, round by round.

    Args:
        group: group of measurements.
        name: what was measured.
        times: seconds of each round of two workloads, ours first.
        target: the smallest ratio required.

    Example:
        >>> speedup("epochs", "an epoch", {"ours": [1.0], "plain": [4.0]}).value
        4.0
    """
    (ours, seconds), (other, other_seconds) = times.items()
    ratios = quartiles([b / a for a, b in zip(seconds, other_seconds, strict=True)])
    return Measurement(
        group, name, _median_text(ours, seconds), _median_text(other, other_seconds), *ratios, "x", "at least", target
    )


def duration(group: str, name: str, seconds: Sequence[float], target_ms: float | None = None) -> Measurement:
    """Report a time in milliseconds.

    Args:
        group: group of measurements.
        name: what was measured.
        seconds: seconds of each round.
        target_ms: the longest time allowed.

    Example:
        >>> duration("parts", "start-up", [0.07]).value
        70.0
    """
    milliseconds = quartiles([1e3 * s for s in seconds])
    return Measurement(group, name, "", "", *milliseconds, "ms", "at most" if target_ms else "", target_ms)


def growth_exponent(name: str, sizes: Sequence[int], values: Sequence[float], expected: float) -> Measurement:
    """Fit a power law to times or bytes; its exponent may not exceed the expected one by more than the noise.

    Args:
        name: what was measured.
        sizes: sizes of the problem.
        values: time or bytes for each size.
        expected: exponent by the formula.

    Example:
        >>> round(growth_exponent("a product of matrices", [10, 100], [1.0, 1000.0], expected=3).value, 6)
        3.0
    """
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in values]
    slope, _ = statistics.linear_regression(x, y)
    span, formula = f"{sizes[0]:,} to {sizes[-1]:,}", f"expected {expected:g}"
    return Measurement("growth", name, span, formula, slope, slope, slope, "", "at most", expected + TOLERANCE)


def _median_text(name: str, seconds: Sequence[float]) -> str:
    median = statistics.median(seconds)
    return f"{name} {median:.2f} s" if median >= 1 else f"{name} {1e3 * median:.3g} ms"


@contextmanager
def single_thread() -> Iterator[None]:
    """Restrict torch to one thread, as in a worker of a data loader.

    Example:
        >>> with single_thread():
        ...     torch.get_num_threads()
        1
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
