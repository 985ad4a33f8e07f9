"""The published tables, read from the CSV files beside this one: percent, as printed."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class PublishedResult:
    """One method in one setting: what is printed, and which of its figures are set in bold."""

    data: str
    tasks: int
    memory: int
    method: str
    a_last: float
    a_avg: float | None
    delta_last: float | None = None
    bold: tuple[str, ...] = ()

    @property
    def setting(self) -> tuple[str, int, int]:
        return self.data, self.tasks, self.memory


def _rows(name: str) -> list[dict[str, str]]:
    text = (files(__package__) / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _number(text: str | None) -> float | None:
    return float(text) if text else None


def _cells(name: str) -> tuple[PublishedResult, ...]:
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
def main() -> tuple[PublishedResult, ...]:
    """The main table: 16 methods, 2,000 exemplars."""
    return _cells("main")


@cache
def memory() -> tuple[PublishedResult, ...]:
    """The nine tables of the appendix: four methods with 500, 1,000 and 2,000 exemplars."""
    return _cells("memory")


@cache
def ablation() -> dict[str, tuple[float, float]]:
    """A_last and A_avg of the seven rows: CIFAR-100, 10 tasks, 500 exemplars."""
    return {row["method"]: (float(row["a_last"]), float(row["a_avg"])) for row in _rows("ablation")}


@cache
def lambda_1() -> dict[str, tuple[float, float]]:
    """A_last and A_avg of the six weights of L_feat: the setting of the ablation."""
    return {row["lambda_1"]: (float(row["a_last"]), float(row["a_avg"])) for row in _rows("lambda")}
