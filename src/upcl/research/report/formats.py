"""Tables as text: Markdown, CSV, LaTeX and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from upcl.core.text import printable, spreadsheet_cell

from .tables import Cell, Table

MARKDOWN_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
LATEX_SYMBOLS = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "Δ": r"$\Delta$",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
}


def _flat_text(cell: Cell) -> str:
    return f"{cell.text} ({cell.interval})" if cell.interval else cell.text


def as_markdown(table: Table) -> str:
    """Format a table as Markdown, followed by its notes.

    Args:
        table: the table.

    Example:
        >>> print(as_markdown(Table("Results", ("method", "A_last"), ((Cell("UPCL"), Cell("56.1")),))))
        ### Results
        <BLANKLINE>
        | method | A_last |
        |---|---|
        | UPCL | 56.1 |
        <BLANKLINE>
        <BLANKLINE>
    """

    def row(texts: Sequence[str]) -> str:
        return "| " + " | ".join(map(escape_markdown, texts)) + " |"

    lines = [f"### {escape_markdown(table.title)}", "", row(table.columns), "|" + "---|" * len(table.columns)]
    lines += [row([_flat_text(cell) for cell in cells]) for cells in table.rows]
    return "\n".join([*lines, "", *(f"- {escape_markdown(note, code=True)}" for note in table.notes), ""])


def escape_markdown(text: str, *, code: bool = False) -> str:
    r"""Escape what Markdown would interpret as HTML, a link, code, or the end of a cell.

    Args:
        text: plain text.
        code: the text marks code by backticks, which stay.

    Example:
        >>> print(escape_markdown("<b>|a_b|"))
        &lt;b&gt;\|a_b\|
    """
    special = r"[\\|\[\]<>]|&(?=#?\w+;)" if code else r"[\\|\[\]<>`]|&(?=#?\w+;)"
    return re.sub(special, lambda found: MARKDOWN_ENTITIES.get(found[0], f"\\{found[0]}"), printable(text))


def as_csv(tables: Sequence[Table], *, spreadsheet_safe: bool = False) -> str:
    """Format tables as one CSV file with a common header: numbers as numbers, and columns for their uncertainty.

    Args:
        tables: the tables.
        spreadsheet_safe: put an apostrophe before texts that a spreadsheet would take for formulas.

    Example:
        >>> cells = Cell("UPCL", "UPCL"), Cell("56.1", 56.12)
        >>> table = Table("Results", ("method", "A_last"), (cells,), ("One seed.",))
        >>> print(as_csv([table]), end="")
        table,method,A_last,notes
        Results,UPCL,56.12,One seed.
    """
    rows = []
    for table in tables:
        for cells in table.rows:
            row: dict[str, Any] = {"table": table.title}
            for column, cell in zip(table.columns, cells, strict=True):
                row[column] = cell.value
                if cell.low is not None:
                    row |= {f"{column} sd": cell.std, f"{column} low": cell.low, f"{column} high": cell.high}
            rows.append({**row, "notes": " ".join(table.notes)})
    text = io.StringIO()
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name != "notes"] + ["notes"]
    writer = csv.writer(text, lineterminator="\n")
    for line in (names, *([row.get(name, "") for name in names] for row in rows)):
        texts = [printable(value) if isinstance(value, str) else value for value in line]
        writer.writerow(map(spreadsheet_cell, texts) if spreadsheet_safe else texts)
    return text.getvalue()


def escape_latex(text: str) -> str:
    r"""Escape characters that LaTeX would interpret.

    Args:
        text: plain text.

    Example:
        >>> print(escape_latex("A_last: 56 %"))
        A\_last: 56 \%
    """
    return re.sub(r"[\\&%$#_{}^~±Δ]", lambda found: LATEX_SYMBOLS.get(found[0], f"\\{found[0]}"), printable(text))


def as_latex(table: Table) -> str:
    """Format a table as a LaTeX `table`, with its notes in the caption.

    Args:
        table: the table.

    Example:
        >>> print(as_latex(Table("Results", ("method", "A_last"), ((Cell("UPCL"), Cell("56.1")),))).splitlines()[6])
        UPCL & 56.1 \\\\
    """
    rows = [" & ".join(escape_latex(_flat_text(cell)) for cell in cells) + r" \\" for cells in table.rows]
    notes = " ".join(escape_latex(note) for note in table.notes)
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{escape_latex(table.title)}. {notes}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            r"\hline",
            " & ".join(map(escape_latex, table.columns)) + r" \\",
            r"\hline",
            *rows,
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def as_json(tables: Sequence[Table]) -> str:
    """Format tables as JSON: the text and the value of each cell, and its uncertainty where it is known.

    Args:
        tables: the tables.

    Example:
        >>> table = Table("Results", ("method", "A_last"), ((Cell("UPCL", "UPCL"), Cell("56.1", 56.12)),))
        >>> json.loads(as_json([table]))[0]["rows"][0][1]
        {'text': '56.1', 'value': 56.12}
    """

    def cell_json(cell: Cell) -> dict[str, Any]:
        known = {"std": cell.std, "low": cell.low, "high": cell.high}
        return {"text": _flat_text(cell), "value": cell.value, **{k: v for k, v in known.items() if v is not None}}

    content = [
        {
            "title": table.title,
            "columns": table.columns,
            "rows": [[cell_json(cell) for cell in cells] for cells in table.rows],
            "notes": table.notes,
        }
        for table in tables
    ]
    return json.dumps(content, indent=1) + "\n"


TABLE_FORMATS: dict[str, Callable[[Sequence[Table]], str]] = {
    "md": lambda tables: "\n".join(map(as_markdown, tables)),
    "csv": as_csv,
    "latex": lambda tables: "\n".join(map(as_latex, tables)),
    "json": as_json,
}
