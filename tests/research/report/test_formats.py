from __future__ import annotations

import csv
import io
import json

from upcl.research.report.content import Report
from upcl.research.report.formats import as_latex, as_markdown
from upcl.research.report.tables import Cell, Table
from upcl.research.report.write import format_tables

TABLE = Table(
    "a & b",
    ("method", "A_last"),
    ((Cell("x|y_z", "x|y_z"), Cell("71.0 ± 2.0", 71.0, 2.0, 66.0, 76.0)), (Cell("~^\\", "~^\\"), Cell("-"))),
    ("95 % of Δ",),
)


def test_markdown_escapes_bars_and_lists_notes() -> None:
    lines = as_markdown(TABLE).splitlines()
    assert lines[0] == "### a & b"
    assert lines[2:6] == ["| method | A_last |", "|---|---|", r"| x\|y_z | 71.0 ± 2.0 (66.0 to 76.0) |", "| ~^\\ | - |"]
    assert lines[-1] == "- 95 % of Δ"


def test_latex_escapes_what_it_would_interpret() -> None:
    text = as_latex(TABLE)
    assert r"\caption{a \& b. 95 \% of $\Delta$}" in text
    assert r"x|y\_z & 71.0 $\pm$ 2.0 (66.0 to 76.0) \\" in text
    assert r"\textasciitilde{}\textasciicircum{}\textbackslash{} & - \\" in text
    assert r"method & A\_last \\" in text


def test_markdown_starts_with_the_title(report: Report) -> None:
    text = format_tables(report, "md")
    assert text.startswith("# Runs\n\n### Results: evil & co, 3 tasks\n")
    assert "| method | A_last head |" in text


def test_csv_of_different_tables_has_one_header(report: Report) -> None:
    rows = list(csv.DictReader(io.StringIO(format_tables(report, "csv"))))
    assert {row["table"] for row in rows} == {"Results: evil & co, 3 tasks", "Paired differences"}
    assert all(None not in row and None not in row.values() for row in rows)
    header = list(rows[0])
    assert header[-1] == "notes" and len(set(header)) == len(header)
    upcl = next(row for row in rows if row["method"] == "UPCL")
    cell = report.tables[0].rows[1][1]
    assert [float(upcl[f"A_last head{part}"]) for part in ("", " sd", " low", " high")] == [
        *(cell.value, cell.std, cell.low, cell.high),
    ]
    assert upcl["against"] == "" and rows[-1]["against"] == "UPCL"
    assert "95 %" in upcl["notes"]


def test_json_holds_values_with_their_uncertainty(report: Report) -> None:
    content = json.loads(format_tables(report, "json"))
    first = content[0]["rows"][0]
    assert first[0] == {"text": "iCaRL", "value": "iCaRL"}
    assert first[1]["low"] <= first[1]["value"] <= first[1]["high"] and first[1]["std"] >= 0
    assert content[0]["columns"] == list(report.tables[0].columns)
