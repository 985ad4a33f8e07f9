"""Tables of results, and the ways to write them down."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..evaluate import READINGS, ReadingName
from ..experiments import Beside
from ..records import Record
from ..summaries import Estimate, Figure, by_line, disagreements, estimate, paired, title_of

FIGURES: dict[Figure, str] = {"a_last": "A_last", "a_avg": "A_avg", "forgetting": "forgets"}
REFERENCE = ("upcl", "up+dm")  # whom the others are paired with


@dataclass(frozen=True)
class Cell:
    """What is read, a smaller second line, and what is sorted by."""

    text: str
    value: float | str | None = None
    small: str = ""


@dataclass(frozen=True)
class Table:
    key: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


def _cell(found: Estimate | None) -> Cell:
    if found is None:
        return Cell("-")
    if found.deviation is None or found.half_width is None:
        return Cell(f"{found.mean:.1f}", found.mean)
    interval = f"{found.mean - found.half_width:.1f} to {found.mean + found.half_width:.1f}"
    return Cell(f"{found.mean:.1f} ± {found.deviation:.1f}", found.mean, interval)


def _signed(value: float | None) -> Cell:
    return Cell("-") if value is None else Cell(f"{value:+.1f}", value)


def over_seeds(records: Sequence[Record], figure: Figure, reading: ReadingName) -> Estimate | None:
    """Of the runs in which the figure exists."""
    values = [record[figure][reading] for record in records if record[figure][reading] is not None]
    return estimate(values) if values else None


def seeds_note(lines: Mapping[str, Sequence[Record]]) -> str:
    counts = {len(runs) for runs in lines.values()}
    if counts == {1}:
        return "One seed each: no spread is known, and small differences mean nothing."
    told = "mean ± standard deviation over seeds, below it the 95 % interval of the mean (Student's t)"
    return f"{told}; lines with one seed have no spread." if 1 in counts else f"{told}."


def notes_of(records: Sequence[Record]) -> list[str]:
    """What a reader must know before comparing these runs."""
    notes = [
        f"NOT THE SAME PROTOCOL: {key} differs ({'; '.join(map(str, values))})"
        for key, values in disagreements(records).items()
        if key not in ("task_sizes", "order")
    ]
    notes += [f"{title_of(r)}, seed {r['seed']}: not finished" for r in records if not r["finished"]]
    told: dict[str, list[str]] = {}
    for record in records:
        for note in record["notes"]:
            told.setdefault(note, []).append(f"{title_of(record)} seed {record['seed']}")
    return notes + [
        f"{note} ({'all runs' if len(who) == len(records) else ', '.join(who)})" for note, who in told.items()
    ]


def results(title: str, records: Sequence[Record], beside: Beside | None = None, key: str = "results") -> Table:
    """A line for each method: both readings over the seeds and, where there are some, the paper's figures."""
    lines = by_line(records)
    theirs = {name: beside.theirs(runs[0]) if beside else None for name, runs in lines.items()}
    with_theirs = any(theirs.values())
    columns = ["method", *(f"{told} {reading}" for told in FIGURES.values() for reading in READINGS)]
    columns += ["paper A_last", "head - paper", "paper A_avg", "head - paper"] if with_theirs else []
    rows = []
    for name, runs in lines.items():
        found = {(figure, reading): over_seeds(runs, figure, reading) for figure in FIGURES for reading in READINGS}
        cells = [Cell(name, name), *(_cell(value) for value in found.values())]
        if with_theirs:
            for figure, published in zip(("a_last", "a_avg"), theirs[name] or (None, None), strict=True):
                mine = found[figure, "head"]  # type: ignore[index]
                cells.append(Cell("-") if published is None else Cell(f"{published:.2f}", published))
                cells.append(_signed(mine.mean - published if mine and published is not None else None))
        seconds = sum(sum(run["seconds"]) for run in runs) / len(runs)
        rows.append((*cells, Cell(str(len(runs)), len(runs)), Cell(f"{seconds:.0f}", seconds)))
    return Table(key, title, (*columns, "seeds", "seconds"), tuple(rows), (seeds_note(lines), *notes_of(records)))


def pairs(title: str, records: Sequence[Record], key: str = "pairs") -> Table | None:
    """Every line against UPCL on the same seeds and class orders; None where there is no UPCL or no other."""
    lines = by_line(records)
    reference = next((name for name, runs in lines.items() if runs[0]["method"] in REFERENCE), None)
    if reference is None or len(lines) < 2:
        return None
    rows = []
    for name, runs in lines.items():
        if name == reference:
            continue
        cells = [Cell(name, name)]
        for reading in READINGS:
            found = paired(runs, lines[reference], "a_last", reading)
            cells.append(_signed(found.difference.mean if found else None))
            known = found is not None and found.p_value is not None
            cells.append(Cell(f"{found.p_value:.3f}", found.p_value) if found and known else Cell("-"))
        shared = paired(runs, lines[reference], "a_last", "head")
        rows.append((*cells, Cell(str(shared.difference.num if shared else 0))))
    note = f"A_last minus that of {reference} on the same seed and class order; p: paired t test, two-sided."
    columns = ("method", "head", "p", "nme", "p", "pairs")
    return Table(key, title, columns, tuple(rows), (note,))


def delta(title: str, records: Sequence[Record], beside: Beside | None) -> Table:
    """A line for each method: A_last and A_avg by memory, and what is lost against the largest one."""
    memories = sorted({record["config"]["memory"] for record in records}, key=int)
    most = memories[-1]
    columns = ["method"]
    for memory in memories:
        columns += [f"M={memory} A_last", "paper", f"M={memory} A_avg", "paper"]
        columns += [f"M={memory} Δ_last", "paper"] if memory != most else []
    rows = []
    for name, runs in by_method(records).items():
        cells, whole = [Cell(name, name)], [run for run in runs if run["config"]["memory"] == most]
        best, best_theirs = _last(whole), beside.theirs(whole[0]) if beside and whole else None
        for memory in memories:
            some = [run for run in runs if run["config"]["memory"] == memory]
            theirs = beside.theirs(some[0]) if beside and some else None
            last, average = _last(some), over_seeds(some, "a_avg", "head")
            cells += [_cell(last), _printed(theirs, 0), _cell(average), _printed(theirs, 1)]
            if memory != most:
                cells.append(_signed(last.mean - best.mean if last and best else None))
                cells.append(_signed(theirs[0] - best_theirs[0] if theirs and best_theirs else None))
        rows.append(tuple(cells))
    said = (
        f"Δ_last: A_last minus that with {most} exemplars, recomputed from the columns for the paper too. Head reading."
    )
    return Table("delta", title, tuple(columns), tuple(rows), (seeds_note(by_line(records)), said))


def _last(runs: Sequence[Record]) -> Estimate | None:
    return over_seeds(runs, "a_last", "head") if runs else None


def _printed(theirs: tuple[float, float | None] | None, place: int) -> Cell:
    value = theirs[place] if theirs else None
    return Cell("-") if value is None else Cell(f"{value:.2f}", value)


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


def as_csv(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["table", *table.columns])
    writer.writerows([table.title, *(_flat(cell) for cell in cells)] for cells in table.rows)
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
        return {"text": _flat(cell), "value": cell.value}

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
    "csv": lambda tables: "\n".join(map(as_csv, tables)),
    "latex": lambda tables: "\n".join(map(as_latex, tables)),
    "json": as_json,
}
