"""The published tables, read from CSV files: percentages, as printed."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class PublishedResult:
    """What the paper prints for one method in one setting.

    Args:
        data: name of the data set.
        tasks: number of tasks.
        memory: number of exemplars.
        method: name of the method.
        a_last: accuracy after the last task.
        a_avg: mean of the accuracies after each task, if printed.
        delta_last: difference in A_last from 2,000 exemplars, if printed.
        bold: which of these figures are set in bold.

    Example:
        >>> PublishedResult("cifar100", 10, 2000, "upcl", a_last=56.12, a_avg=69.41).setting
        ('cifar100', 10, 2000)
    """

    data: str
    tasks: int
    memory: int
    method: str
    a_last: float
    a_avg: float | None
    delta_last: float | None = None
    bold: tuple[str, ...] = ()

    @property
    def stream(self) -> tuple[str, int]:
        """Data set and number of tasks."""
        return self.data, self.tasks

    @property
    def setting(self) -> tuple[str, int, int]:
        """Data set, number of tasks and number of exemplars."""
        return self.data, self.tasks, self.memory


def _rows(name: str) -> list[dict[str, str]]:
    text = (files(__package__) / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _number(text: str | None) -> float | None:
    return float(text) if text else None


def _results(name: str) -> tuple[PublishedResult, ...]:
    return tuple(
        PublishedResult(
            data=row["data"],
            tasks=int(row["tasks"]),
            memory=int(row["memory"]),
            method=row["method"],
            a_last=float(row["a_last"]),
            a_avg=_number(row["a_avg"]),
            delta_last=_number(row.get("delta_last")),
            bold=tuple(row["bold"].split()),
        )
        for row in _rows(name)
    )


@cache
def main_table() -> tuple[PublishedResult, ...]:
    """The main table: 16 methods with 2,000 exemplars.

    Example:
        >>> [cell.a_last for cell in main_table() if cell.data == "cifar100" and cell.method == "upcl"]
        [60.92, 56.12, 51.3]
    """
    return _results("main")


@cache
def memory_tables() -> tuple[PublishedResult, ...]:
    """The nine tables of the appendix: four methods with 500, 1,000 and 2,000 exemplars.

    Example:
        >>> len(memory_tables())
        108
    """
    return _results("memory")


@cache
def ablation_table() -> dict[str, tuple[float, float]]:
    """A_last and A_avg of the seven rows of the ablation: CIFAR-100, 10 tasks, 500 exemplars.

    Example:
        >>> ablation_table()["baseline"]
        (22.91, 43.98)
    """
    return {row["method"]: (float(row["a_last"]), float(row["a_avg"])) for row in _rows("ablation")}


@cache
def lambda_table() -> dict[str, tuple[float, float]]:
    """A_last and A_avg for the six schedules of lambda_1, in the setting of the ablation.

    Example:
        >>> lambda_table()["2^t"]
        (10.94, 45.83)
    """
    return {row["lambda_1"]: (float(row["a_last"]), float(row["a_avg"])) for row in _rows("lambda")}
