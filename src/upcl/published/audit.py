"""The paper's tables against each other: differences recomputed, cells compared, bold print checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from .tables import Cell, ablation, lambda_1, main, memory

Kind = Literal["delta", "contradiction", "copy", "bold", "text"]
ROUNDING = 0.0151  # two numbers, each rounded to two decimals
CLAIMS = tuple(("a_avg", "upcl", "wa", ("cifar100", t, 2000), said) for t, said in ((5, 0.97), (10, 1.19), (20, 3.88)))
# figure, method, rival, setting, by how much the text says it is ahead


@dataclass(frozen=True)
class Finding:
    """One thing that does not fit."""

    kind: Kind
    where: str
    what: str


def audit() -> list[Finding]:
    """Everything that is found, by kind."""
    return [*_deltas(), *_contradictions(), *_copies(), *_bold(), *_text()]


def _where(cell: Cell) -> str:
    return f"{cell.data} T={cell.tasks} M={cell.memory}, {cell.method}"


def _deltas() -> Iterator[Finding]:
    """Printed differences to M=2000 that are not the difference of their columns."""
    full = {(c.data, c.tasks, c.method): c.a_last for c in memory() if c.memory == 2000}
    for cell in memory():
        if cell.delta_last is None:
            continue
        computed = cell.a_last - full[cell.data, cell.tasks, cell.method]
        if abs(computed - cell.delta_last) > ROUNDING:
            yield Finding("delta", _where(cell), f"printed {cell.delta_last:.2f}, the columns give {computed:.2f}")


def _contradictions() -> Iterator[Finding]:
    """One experiment with two results: the main table, the appendix, the ablation, the table of lambda_1."""
    appendix = {(*c.setting, c.method): c for c in memory()}
    for cell in main():
        other = appendix.get((*cell.setting, cell.method))
        for figure in ("a_last", "a_avg"):
            mine, theirs = getattr(cell, figure), getattr(other, figure, None)
            if theirs is not None and mine is not None and abs(mine - theirs) > ROUNDING:
                yield Finding(
                    "contradiction", _where(cell), f"{figure} {mine:.2f} in the main table, {theirs:.2f} after"
                )
    for row, method in (("baseline", "icarl"), ("up+dm", "upcl")):
        other = appendix["cifar100", 10, 500, method]
        for figure, mine in zip(("a_last", "a_avg"), ablation()[row], strict=True):
            if abs(mine - getattr(other, figure)) > ROUNDING:
                theirs = getattr(other, figure)
                yield Finding(
                    "contradiction", _where(other), f"{figure} {mine:.2f} in the ablation, {theirs:.2f} after"
                )
    if lambda_1()["1/2^t"] != ablation()["up+dm"]:
        yield Finding("contradiction", "lambda_1 = 1/2^t", "not the ablation's last row")


def _copies() -> Iterator[Finding]:
    """The same number to the second decimal for one method under two memories of one table."""
    rows: dict[tuple[str, int, str], list[Cell]] = defaultdict(list)
    for cell in memory():
        rows[cell.data, cell.tasks, cell.method].append(cell)
    for cells in rows.values():
        for a, b in combinations(cells, 2):
            for figure in ("a_last", "a_avg"):
                if getattr(a, figure) == getattr(b, figure):
                    said = f"{figure} {getattr(a, figure):.2f} stands under M={a.memory} and M={b.memory}"
                    yield Finding("copy", f"{a.data} T={a.tasks}, {a.method}", said)


def _bold() -> Iterator[Finding]:
    """Bold cells that are not the best of their column."""
    for table in (main(), memory()):
        columns: dict[tuple[str, int, int], list[Cell]] = defaultdict(list)
        for cell in table:
            columns[cell.setting].append(cell)
        for cells in columns.values():
            rivals = [cell for cell in cells if cell.method != "joint"]
            for cell in rivals:
                for figure in cell.bold:
                    known = [c for c in rivals if getattr(c, figure) is not None]
                    best = max(known, key=lambda c: getattr(c, figure))
                    mine, theirs = getattr(cell, figure), getattr(best, figure)
                    if theirs > mine:
                        said = f"{figure} {mine:.2f} is bold, {best.method} has {theirs:.2f}"
                        yield Finding("bold", _where(cell), said)


def _text() -> Iterator[Finding]:
    """Sentences against the main table."""
    cells = {(*c.setting, c.method): c for c in main()}
    for figure, method, rival, setting, said in CLAIMS:
        found = getattr(cells[*setting, method], figure) - getattr(cells[*setting, rival], figure)
        if abs(found - said) > ROUNDING:
            told = f"{method} ahead of {rival} in {figure} by {said} in the text, by {found:.2f} in the table"
            yield Finding("text", f"{setting[0]} T={setting[1]}", told)
