"""An audit of the paper's tables: differences are recomputed, cells compared, bold print and claims checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

from .tables import PublishedResult, ablation_table, lambda_table, main_table, memory_tables

Kind = Literal["delta", "contradiction", "copy", "bold", "best", "text", "protocol"]
TableName = Literal["main", "memory", "ablation", "lambda"]
ROUNDING = 0.0151  # error of a difference between two numbers that are each rounded to two decimals
SAME = 0.001  # two prints of one number differ by less
CLAIMS = tuple(  # metric, method, baseline, setting, lead that the text claims
    ("a_avg", "upcl", "wa", ("cifar100", tasks, 2000), lead) for tasks, lead in ((5, 0.97), (10, 1.19), (20, 3.88))
)
PROTOCOL_REMARKS = (
    "Coil and BiC are quoted from elsewhere, not run",
    "LUCIR, CwD and ScrollNet were run with their authors' code and settings: other memories, recipes and networks",
    "one seed and one class order; no variance is reported",
)


@dataclass(frozen=True)
class Finding:
    """An inconsistency in the published tables.

    Args:
        kind: which check found it.
        where: the cell or table.
        what: what is inconsistent.
        tables: the tables that it concerns.
        stream: data set and number of tasks, if it concerns a single stream.

    Example:
        >>> Finding("protocol", "main table", "one seed", ("main",)).stream is None
        True
    """

    kind: Kind
    where: str
    what: str
    tables: tuple[TableName, ...]
    stream: tuple[str, int] | None = None


def audit() -> list[Finding]:
    """Check the published tables against each other and against the text.

    Returns:
        All findings, by kind.

    Example:
        >>> finding = audit()[0]
        >>> finding.kind, finding.where
        ('delta', 'cifar100 T=5 M=1000, wa')
    """
    remarks = (Finding("protocol", "main table", remark, ("main",)) for remark in PROTOCOL_REMARKS)
    return [*_deltas(), *_contradictions(), *_copies(), *_bold(), *_best(), *_claims(), *remarks]


def _where(cell: PublishedResult) -> str:
    return f"{cell.data} T={cell.tasks} M={cell.memory}, {cell.method}"


def _deltas() -> Iterator[Finding]:
    """Printed differences from M=2000 that are not the difference of their columns."""
    largest = {(*cell.stream, cell.method): cell.a_last for cell in memory_tables() if cell.memory == 2000}
    for cell in memory_tables():
        if cell.delta_last is None:
            continue
        computed = cell.a_last - largest[*cell.stream, cell.method]
        if abs(computed - cell.delta_last) > ROUNDING:
            what = f"printed {cell.delta_last:.2f}, the columns give {computed:.2f}"
            yield Finding("delta", _where(cell), what, ("memory",), cell.stream)


def _contradictions() -> Iterator[Finding]:
    """One experiment with two results: in the main table, the appendix, the ablation or the table of lambda_1."""
    appendix = {(*cell.setting, cell.method): cell for cell in memory_tables()}
    for cell in main_table():
        other = appendix.get((*cell.setting, cell.method))
        for metric in ("a_last", "a_avg"):
            in_main, in_appendix = getattr(cell, metric), getattr(other, metric, None)
            if in_main is not None and in_appendix is not None and abs(in_main - in_appendix) > SAME:
                what = f"{metric} {in_main:.2f} in the main table, {in_appendix:.2f} in the appendix"
                yield Finding("contradiction", _where(cell), what, ("main", "memory"), cell.stream)
    for row, method in (("baseline", "icarl"), ("up+dm", "upcl")):
        other = appendix["cifar100", 10, 500, method]
        for metric, in_ablation in zip(("a_last", "a_avg"), ablation_table()[row], strict=True):
            in_appendix = getattr(other, metric)
            if abs(in_ablation - in_appendix) > SAME:
                what = f"{metric} {in_ablation:.2f} in the ablation, {in_appendix:.2f} in the appendix"
                yield Finding("contradiction", _where(other), what, ("ablation", "memory"), other.stream)
    if lambda_table()["1/2^t"] != ablation_table()["up+dm"]:
        what = "differs from the last row of the ablation"
        yield Finding("contradiction", "lambda_1 = 1/2^t", what, ("ablation", "lambda"))


def _copies() -> Iterator[Finding]:
    """Numbers of one method that agree to the second decimal in two settings that share the data or the tasks."""
    by_method: dict[str, list[PublishedResult]] = defaultdict(list)
    for cell in dict.fromkeys((*main_table(), *memory_tables())):
        by_method[cell.method].append(cell)
    for cells in by_method.values():
        for a, b in combinations(cells, 2):
            if a.setting == b.setting or not (a.stream == b.stream or a.setting[1:] == b.setting[1:]):
                continue
            for metric in ("a_last", "a_avg"):
                if getattr(a, metric) is not None and getattr(a, metric) == getattr(b, metric):
                    what = f"{metric} {getattr(a, metric):.2f} is also printed for {b.data} T={b.tasks} M={b.memory}"
                    yield Finding("copy", _where(a), what, ("main", "memory"), a.stream)


def _beaten() -> Iterator[tuple[TableName, PublishedResult, str, PublishedResult]]:
    """(table, cell, metric, best cell of its column) for each figure that is not the best, leaving out the oracle."""
    tables: tuple[tuple[TableName, tuple[PublishedResult, ...]], ...] = (
        ("main", main_table()),
        ("memory", memory_tables()),
    )
    for name, table in tables:
        columns: dict[tuple[str, int, int], list[PublishedResult]] = defaultdict(list)
        for cell in table:
            if cell.method != "joint":
                columns[cell.setting].append(cell)
        for cells, metric in product(columns.values(), ("a_last", "a_avg", "delta_last")):
            known = [cell for cell in cells if getattr(cell, metric) is not None]
            values = [getattr(cell, metric) for cell in known]
            for cell, value in zip(known, values, strict=True):
                if value < max(values):
                    yield name, cell, metric, known[values.index(max(values))]


def _bold() -> Iterator[Finding]:
    """Bold cells that are not the best of their column."""
    for table, cell, metric, best in _beaten():
        if metric in cell.bold:
            what = f"{metric} {getattr(cell, metric):.2f} is bold, {best.method} has {getattr(best, metric):.2f}"
            yield Finding("bold", _where(cell), what, (table,), cell.stream)


def _best() -> Iterator[Finding]:
    """Where UPCL is not the best, although the text claims that it is in all settings and metrics."""
    for table, cell, metric, best in _beaten():
        if cell.method == "upcl" and metric != "delta_last" and metric not in cell.bold:
            what = f"{metric} {getattr(cell, metric):.2f}, {best.method} has {getattr(best, metric):.2f}"
            yield Finding("best", _where(cell), what, (table,), cell.stream)


def _claims() -> Iterator[Finding]:
    """Leads that the text claims, against the main table."""
    cells = {(*cell.setting, cell.method): cell for cell in main_table()}
    for metric, method, baseline, setting, claimed in CLAIMS:
        lead = getattr(cells[*setting, method], metric) - getattr(cells[*setting, baseline], metric)
        if abs(lead - claimed) > ROUNDING:
            what = f"{method} leads {baseline} in {metric} by {claimed} in the text, by {lead:.2f} in the table"
            yield Finding("text", f"{setting[0]} T={setting[1]}", what, ("main",), setting[:2])
