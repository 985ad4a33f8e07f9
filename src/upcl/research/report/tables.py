"""Tables of results, and the ways to write them down."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from upcl.methods.registry import METHODS
from upcl.research.paper.experiments import PublishedReference
from upcl.research.record import Record
from upcl.research.statistics import (
    Figure,
    MeanEstimate,
    by_line,
    conditions_of,
    disagreements,
    estimate,
    paired,
    recipe_of,
    title_of,
    unequal_orders,
    value_of,
)
from upcl.training.evaluate import READINGS, ReadingName

FIGURES: dict[Figure, str] = {"a_last": "A_last", "a_avg": "A_avg", "forgetting": "forgets"}
REFERENCE = ("upcl", "up+dm")  # whom the others are paired with


@dataclass(frozen=True)
class Cell:
    """What is read, and the number behind it, with its deviation and 95 % interval where they are known."""

    text: str
    value: float | str | None = None
    deviation: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def small(self) -> str:
        """A second line: the interval."""
        return "" if self.low is None or self.high is None else f"{self.low:.1f} to {self.high:.1f}"


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


def _cell(found: MeanEstimate | None, told: str = "{:.1f}") -> Cell:
    if found is None:
        return Cell("-")
    text = told.format(found.mean)
    if found.deviation is None or found.half_width is None:
        return Cell(text, found.mean)
    ends = found.mean - found.half_width, found.mean + found.half_width
    return Cell(f"{text} ± {found.deviation:.1f}", found.mean, found.deviation, *ends)


def _signed(value: float | None) -> Cell:
    return Cell("-") if value is None else Cell(f"{value:+.1f}", value)


def over_runs(records: Sequence[Record], figure: Figure, reading: ReadingName) -> MeanEstimate | None:
    """Of the runs in which the figure exists and that got as far as the furthest."""
    furthest = max((len(record.seconds) for record in records), default=0)
    found = [value_of(record, figure, reading) for record in records if len(record.seconds) == furthest]
    values = [value for value in found if value is not None]
    return estimate(values) if values else None


def runs_note(lines: Mapping[str, Sequence[Record]]) -> str:
    counts = {len(runs) for runs in lines.values()}
    if counts == {1}:
        return "One seed each: no spread is known, and small differences mean nothing."
    told = "mean ± standard deviation over runs, below it the 95 % interval (Student's t)"
    if any(len({run.order_seed for run in runs}) > 1 for runs in lines.values()):
        told += ", each pair of seed and class order counted as a draw of its own"
    return f"{told}; lines with one seed have no spread." if 1 in counts else f"{told}."


def notes_of(records: Sequence[Record]) -> list[str]:
    """What a reader must know before comparing these runs."""
    notes = [
        f"NOT THE SAME PROTOCOL: {key} differs ({'; '.join(map(str, values))})"
        for key, values in disagreements(records).items()
    ]
    if unequal_orders(by_line(records)):
        notes.append("NOT THE SAME PROTOCOL: the lines were run on different class orders")
    notes += [f"{title_of(r)}, seed {r.seed}: not finished" for r in records if not r.finished]
    told: dict[str, list[str]] = {}
    for record in records:
        for note in record.notes:
            told.setdefault(note, []).append(f"{title_of(record)} seed {record.seed}")
    return notes + [
        f"{note} ({'all runs' if len(who) == len(records) else ', '.join(who)})" for note, who in told.items()
    ]


def results(
    title: str, records: Sequence[Record], beside: PublishedReference | None = None, said: Sequence[str] = ()
) -> Table:
    """A line for each method: both readings over the runs and, where there are some, the paper's figures."""
    lines = by_line(records)
    theirs = {name: beside.theirs(runs[0]) if beside else None for name, runs in lines.items()}
    with_theirs = any(theirs.values())
    columns = ["method", *(f"{told} {reading}" for told in FIGURES.values() for reading in READINGS)]
    columns += ["paper A_last", "A_last head - paper", "paper A_avg", "A_avg head - paper"] if with_theirs else []
    rows = []
    for name, runs in lines.items():
        found = {(figure, reading): over_runs(runs, figure, reading) for figure in FIGURES for reading in READINGS}
        cells = [Cell(name, name), *(_cell(value) for value in found.values())]
        if with_theirs:
            printed = theirs[name] or (None, None)
            cells += _beside(found["a_last", "head"], printed[0]) + _beside(found["a_avg", "head"], printed[1])
        seconds = sum(sum(run.seconds) for run in runs) / len(runs)
        rows.append((*cells, Cell(str(len(runs)), len(runs)), Cell(f"{seconds:.0f}", seconds)))
    notes = (*said, runs_note(lines), *notes_of(records))
    return Table(title, (*columns, "runs", "seconds"), tuple(rows), notes)


def _beside(ours: MeanEstimate | None, printed: float | None) -> list[Cell]:
    """The paper's figure and the difference."""
    if printed is None:
        return [Cell("-"), Cell("-")]
    return [Cell(f"{printed:.2f}", printed), _signed(ours.mean - printed if ours else None)]


PAIRED = ("head", "head p", "nme", "nme p")
PAIRED_NOTE = (
    "Differences in A_last on the same seed and class order: mean ± deviation, below it the 95 % interval; p: paired t "
    "test, two-sided, not corrected for the number of lines."
)


def pairs(records: Sequence[Record]) -> Table | None:
    """Every line against UPCL as it is, else against the first line, on the same seeds and class orders.

    Conditions must be equal; recipes may differ, and are told. None where there is nothing to compare.
    """
    lines = by_line(records)
    rows, other_recipes = [], []
    for name, runs in lines.items():
        reference = _reference(runs[0], lines)
        if reference is None or reference == name:
            continue
        cells, num = _paired(runs, lines[reference])
        rows.append((Cell(name, name), *cells, Cell(reference, reference), Cell(str(num), num)))
        if recipe_of(runs[0]) != recipe_of(lines[reference][0]):
            other_recipes.append(name)
    if not rows:
        return None
    told = [f"Trained with another recipe than the line they are compared with: {', '.join(other_recipes)}."]
    notes = (PAIRED_NOTE, *(told if other_recipes else []))
    return Table("Paired differences", ("method", *PAIRED, "against", "pairs"), tuple(rows), notes)


def _paired(ours: Sequence[Record], theirs: Sequence[Record]) -> tuple[list[Cell], int]:
    """Cells of the differences in both readings, and the number of pairs."""
    cells, num = [], 0
    for reading in READINGS:
        found = paired(ours, theirs, "a_last", reading)
        p_value = found.p_value if found else None
        cells.append(_cell(found.difference if found else None, "{:+.1f}"))
        cells.append(Cell("-") if p_value is None else Cell(f"{p_value:.3f}", p_value))
        num = max(num, found.difference.num if found else 0)
    return cells, num


def _reference(record: Record, lines: Mapping[str, Sequence[Record]]) -> str | None:
    """UPCL with its own options, else the first line, under the conditions of this run."""
    alike = {name: runs[0] for name, runs in lines.items() if conditions_of(runs[0]) == conditions_of(record)}
    for name, first in alike.items():
        own = all(getattr(METHODS["upcl"], key, None) == value for key, value in first.config.options.items())
        if first.method in REFERENCE and own:
            return name
    return next(iter(alike), None)


def adds(records: Sequence[Record], parts: Sequence[tuple[str, str, str]]) -> Table:
    """What a part adds: (its name, the method without it, the method with it)."""
    methods: dict[str, list[Record]] = {}
    for record in records:
        methods.setdefault(record.method, []).append(record)
    rows = []
    for part, without, with_it in parts:
        if without in methods and with_it in methods:
            cells, num = _paired(methods[with_it], methods[without])
            told = f"{title_of(methods[without][0])} to {title_of(methods[with_it][0])}"
            rows.append((Cell(part, part), Cell(told, told), *cells, Cell(str(num), num)))
    return Table("What each part adds", ("part", "from and to", *PAIRED, "pairs"), tuple(rows), (PAIRED_NOTE,))


def delta(title: str, records: Sequence[Record], beside: PublishedReference | None, said: Sequence[str] = ()) -> Table:
    """A line for each method: A_last and A_avg by memory, and what is lost against the largest one."""
    memories = sorted({record.config.memory for record in records}, key=int)
    most = memories[-1]
    columns = ["method"]
    for memory in memories:
        for figure in ("A_last", "A_avg"):
            columns += [f"M={memory} {figure}", f"M={memory} {figure} paper", f"M={memory} {figure} - paper"]
        if memory != most:
            columns += [f"M={memory} Δ_last", f"M={memory} Δ_last paper", f"M={memory} Δ_last - paper"]
    rows = []
    for name, runs in by_method(records).items():
        cells, whole = [Cell(name, name)], [run for run in runs if run.config.memory == most]
        best_theirs = beside.theirs(whole[0]) if beside and whole else None
        for memory in memories:
            some = [run for run in runs if run.config.memory == memory]
            theirs = (beside.theirs(some[0]) if beside and some else None) or (None, None)
            last, average = _last(some), over_runs(some, "a_avg", "head")
            cells += [_cell(last), *_beside(last, theirs[0]), _cell(average), *_beside(average, theirs[1])]
            if memory != most:
                lost = paired(some, whole, "a_last", "head")
                printed = theirs[0] - best_theirs[0] if theirs[0] is not None and best_theirs else None
                cells.append(_cell(lost.difference if lost else None, "{:+.1f}"))
                cells += _beside(lost.difference if lost else None, printed)
        rows.append(tuple(cells))
    about = (
        f"Δ_last: A_last minus that with {most} exemplars on the same seed, recomputed from the columns for the paper "
        "(`upcl audit` lists where it prints others). Head reading."
    )
    notes = [note for note in notes_of(records) if "memory differs" not in note]
    return Table(title, tuple(columns), tuple(rows), (*said, runs_note(by_line(records)), about, *notes))


def _last(runs: Sequence[Record]) -> MeanEstimate | None:
    return over_runs(runs, "a_last", "head") if runs else None


def by_method(records: Sequence[Record]) -> dict[str, list[Record]]:
    methods: dict[str, list[Record]] = {}
    for record in records:
        methods.setdefault(title_of(record), []).append(record)
    return methods


def as_markdown(table: Table) -> str:
    def row(words: Sequence[str]) -> str:
        return "| " + " | ".join(word.replace("|", "\\|") for word in words) + " |"

    lines = [f"### {table.title}", "", row(table.columns), "|" + "---|" * len(table.columns)]
    lines += [row([_flat(cell) for cell in cells]) for cells in table.rows]
    return "\n".join([*lines, "", *(f"- {note}" for note in table.notes), ""])


def _flat(cell: Cell) -> str:
    return f"{cell.text} ({cell.small})" if cell.small else cell.text


def as_csv(tables: Sequence[Table]) -> str:
    """Numbers as numbers, a column for each value with its deviation and interval. Tables share one header."""
    rows = []
    for table in tables:
        for cells in table.rows:
            row: dict[str, Any] = {"table": table.title}
            for column, cell in zip(table.columns, cells, strict=True):
                row[column] = cell.value
                if cell.low is not None:
                    row |= {f"{column} sd": cell.deviation, f"{column} low": cell.low, f"{column} high": cell.high}
            rows.append({**row, "notes": " ".join(table.notes)})
    text = io.StringIO()
    header = [name for name in dict.fromkeys(name for row in rows for name in row) if name != "notes"]
    writer = csv.DictWriter(text, [*header, "notes"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


TEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "Δ": r"$\Delta$",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
}


def _tex(text: str) -> str:
    return re.sub(r"[\\&%$#_{}^~±Δ]", lambda found: TEX.get(found[0], f"\\{found[0]}"), text)


def as_latex(table: Table) -> str:
    rows = [" & ".join(_tex(_flat(cell)) for cell in cells) + r" \\" for cells in table.rows]
    notes = " ".join(_tex(note) for note in table.notes)
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_tex(table.title)}. {notes}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            r"\hline",
            " & ".join(map(_tex, table.columns)) + r" \\",
            r"\hline",
            *rows,
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def as_json(tables: Sequence[Table]) -> str:
    def plain(cell: Cell) -> Any:
        known = {"deviation": cell.deviation, "low": cell.low, "high": cell.high}
        return {"text": _flat(cell), "value": cell.value, **{k: v for k, v in known.items() if v is not None}}

    content = [
        {
            "title": table.title,
            "columns": table.columns,
            "rows": [[plain(cell) for cell in cells] for cells in table.rows],
            "notes": table.notes,
        }
        for table in tables
    ]
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[[Sequence[Table]], str]] = {
    "md": lambda tables: "\n".join(map(as_markdown, tables)),
    "csv": as_csv,
    "latex": lambda tables: "\n".join(map(as_latex, tables)),
    "json": as_json,
}
