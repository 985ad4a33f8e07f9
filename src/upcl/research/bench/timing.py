"""Times on a noisy machine: rivals are measured in turn, several times; medians and quartiles of ratios are told."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch

Work = Callable[[], Any]
TOLERANCE = 0.15  # of an exponent that was fitted to noisy times


@dataclass(frozen=True)
class Row:
    """One line of the table: a figure with its quartiles, against its target where it has one."""

    group: str
    name: str
    ours: str
    other: str
    figure: float
    low: float
    high: float
    unit: str
    rule: Literal["at most", "at least", ""] = ""
    target: float | None = None

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.figure <= self.target if self.rule == "at most" else self.figure >= self.target


def interleaved(works: Mapping[str, Work], repeats: int) -> dict[str, list[float]]:
    """Seconds of each work in each round; a first round, to warm up, does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats + 1):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - start)
    return {name: times[1:] for name, times in seconds.items()}


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Median, first and third quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, low, high


def overhead(group: str, name: str, times: Mapping[str, list[float]], target: float | None = None) -> Row:
    """Ours over the limit, which is the other work: at most the target."""
    (ours, mine), (other, theirs) = times.items()
    figure = quartiles([a / b for a, b in zip(mine, theirs, strict=True)])
    return Row(group, name, _told(ours, mine), _told(other, theirs), *figure, "x", "at most", target)


def speedup(group: str, name: str, times: Mapping[str, list[float]], target: float | None = None) -> Row:
    """How many times faster the first work is than the second: at least the target."""
    (ours, mine), (other, theirs) = times.items()
    figure = quartiles([b / a for a, b in zip(mine, theirs, strict=True)])
    return Row(group, name, _told(ours, mine), _told(other, theirs), *figure, "x", "at least", target)


def duration(group: str, name: str, seconds: list[float], target_ms: float | None = None) -> Row:
    """Milliseconds: at most the target."""
    figure = quartiles([1e3 * s for s in seconds])
    return Row(group, name, "", "", *figure, "ms", "at most" if target_ms else "", target_ms)


def growth_of(name: str, sizes: Sequence[int], values: Sequence[float], formula: float) -> Row:
    """The exponent of a power law fitted to values over sizes: at most the formula's, within the noise."""
    x, y = [math.log(n) for n in sizes], [math.log(v) for v in values]
    slope, _ = statistics.linear_regression(x, y)
    told = f"{sizes[0]:,} to {sizes[-1]:,}"
    return Row("growth", name, told, f"formula {formula:g}", slope, slope, slope, "", "at most", formula + TOLERANCE)


def _told(name: str, seconds: Sequence[float]) -> str:
    middle = statistics.median(seconds)
    return f"{name} {middle:.2f} s" if middle >= 1 else f"{name} {1e3 * middle:.3g} ms"


@contextmanager
def one_thread() -> Any:
    """On one core, as a worker of a loader would be."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
