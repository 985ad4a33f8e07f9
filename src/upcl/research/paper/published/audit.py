"""The paper's tables against each other: differences recomputed, cells compared, bold print checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

from .tables import PublishedResult, ablation, lambda_1, main, memory

Kind = Literal["delta", "contradiction", "copy", "bold", "best", "text", "protocol"]
Printed = Literal["main", "memory", "ablation", "lambda"]
ROUNDING = 0.0151  # of a difference of two numbers, each rounded to two decimals
SAME = 0.001  # one number, printed twice
CLAIMS = tuple(("a_avg", "upcl", "wa", ("cifar100", t, 2000), said) for t, said in ((5, 0.97), (10, 1.19), (20, 3.88)))


@dataclass(frozen=True)
class Finding:
    """One thing that does not fit: in which tables and, where it is one setting's, for which data and tasks."""

    kind: Kind
    where: str
    what: str
    tables: tuple[Printed, ...]
    place: tuple[str, int] | None = None


PROTOCOL = (
    "Coil and BiC are quoted from elsewhere, not run",
    "LUCIR, CwD and ScrollNet were run with their authors' code and settings: other memories, recipes and networks",
    "one seed and one class order; no variance is told",
)


def audit() -> list[Finding]:
    """Everything that is found, by kind."""
    said = (Finding("protocol", "main table", what, ("main",)) for what in PROTOCOL)
    return [*_deltas(), *_contradictions(), *_copies(), *_bold(), *_best(), *_text(), *said]


def _where(cell: PublishedResult) -> str:
    return f"{cell.data} T={cell.tasks} M={cell.memory}, {cell.method}"


def _deltas() -> Iterator[Finding]:
    """Printed differences to M=2000 that are not the difference of their columns."""
    full = {(c.data, c.tasks, c.method): c.a_last for c in memory() if c.memory == 2000}
    for cell in memory():
        if cell.delta_last is None:
            continue
        computed = cell.a_last - full[cell.data, cell.tasks, cell.method]
        if abs(computed - cell.delta_last) > ROUNDING:
            what = f"printed {cell.delta_last:.2f}, the columns give {computed:.2f}"
            yield Finding("delta", _where(cell), what, ("memory",), cell.setting[:2])


def _contradictions() -> Iterator[Finding]:
    """One experiment with two results: the main table, the appendix, the ablation, the table of lambda_1."""
    appendix = {(*c.setting, c.method): c for c in memory()}
    for cell in main():
        other = appendix.get((*cell.setting, cell.method))
        for figure in ("a_last", "a_avg"):
            mine, theirs = getattr(cell, figure), getattr(other, figure, None)
            if theirs is not None and mine is not None and abs(mine - theirs) > SAME:
                what = f"{figure} {mine:.2f} in the main table, {theirs:.2f} after"
                yield Finding("contradiction", _where(cell), what, ("main", "memory"), cell.setting[:2])
    for row, method in (("baseline", "icarl"), ("up+dm", "upcl")):
        other = appendix["cifar100", 10, 500, method]
        for figure, mine in zip(("a_last", "a_avg"), ablation()[row], strict=True):
            if abs(mine - getattr(other, figure)) > SAME:
                what = f"{figure} {mine:.2f} in the ablation, {getattr(other, figure):.2f} after"
                yield Finding("contradiction", _where(other), what, ("ablation", "memory"), other.setting[:2])
    if lambda_1()["1/2^t"] != ablation()["up+dm"]:
        yield Finding("contradiction", "lambda_1 = 1/2^t", "not the ablation's last row", ("ablation", "lambda"))


def _copies() -> Iterator[Finding]:
    """The same number to the second decimal for one method in two settings that share the data or the tasks."""
    rows: dict[str, list[PublishedResult]] = defaultdict(list)
    for cell in dict.fromkeys((*main(), *memory())):
        rows[cell.method].append(cell)
    for cells in rows.values():
        for a, b in combinations(cells, 2):
            if a.setting == b.setting or not ((a.data, a.tasks) == (b.data, b.tasks) or a.setting[1:] == b.setting[1:]):
                continue
            for figure in ("a_last", "a_avg"):
                if getattr(a, figure) is not None and getattr(a, figure) == getattr(b, figure):
                    said = f"{figure} {getattr(a, figure):.2f} stands also under {b.data} T={b.tasks} M={b.memory}"
                    yield Finding("copy", _where(a), said, ("main", "memory"), a.setting[:2])


def _beaten() -> Iterator[tuple[Printed, PublishedResult, str, PublishedResult]]:
    """(table, cell, figure, the best of its column) for each figure of a cell that is not the best, but for the
    oracle's."""
    tables: tuple[tuple[Printed, tuple[PublishedResult, ...]], ...] = (("main", main()), ("memory", memory()))
    for name, table in tables:
        columns: dict[tuple[str, int, int], list[PublishedResult]] = defaultdict(list)
        for cell in table:
            if cell.method != "joint":
                columns[cell.setting].append(cell)
        for cells, figure in product(columns.values(), ("a_last", "a_avg", "delta_last")):
            known = [cell for cell in cells if getattr(cell, figure) is not None]
            values = [getattr(cell, figure) for cell in known]
            for cell, value in zip(known, values, strict=True):
                if value < max(values):
                    yield name, cell, figure, known[values.index(max(values))]


def _bold() -> Iterator[Finding]:
    """Bold cells that are not the best of their column."""
    for table, cell, figure, best in _beaten():
        if figure in cell.bold:
            said = f"{figure} {getattr(cell, figure):.2f} is bold, {best.method} has {getattr(best, figure):.2f}"
            yield Finding("bold", _where(cell), said, (table,), cell.setting[:2])


def _best() -> Iterator[Finding]:
    """Where UPCL is not the best, though the text says that it is in all settings and metrics."""
    for table, cell, figure, best in _beaten():
        if cell.method == "upcl" and figure != "delta_last" and figure not in cell.bold:
            said = f"{figure} {getattr(cell, figure):.2f}, {best.method} has {getattr(best, figure):.2f}"
            yield Finding("best", _where(cell), said, (table,), cell.setting[:2])


def _text() -> Iterator[Finding]:
    """Sentences against the main table."""
    cells = {(*c.setting, c.method): c for c in main()}
    for figure, method, rival, setting, said in CLAIMS:
        found = getattr(cells[*setting, method], figure) - getattr(cells[*setting, rival], figure)
        if abs(found - said) > ROUNDING:
            told = f"{method} ahead of {rival} in {figure} by {said} in the text, by {found:.2f} in the table"
            yield Finding("text", f"{setting[0]} T={setting[1]}", told, ("main",), setting[:2])
