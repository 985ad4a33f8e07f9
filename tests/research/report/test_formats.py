from __future__ import annotations

import csv
import io
import json

from upcl.research.report.content import Report, Section
from upcl.research.report.formats import TABLE_FORMATS, as_csv, as_latex, as_markdown
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
    assert lines[2:6] == [
        "| method | A_last |",
        "|---|---|",
        r"| x\|y_z | 71.0 ± 2.0 (66.0 to 76.0) |",
        "| ~^\\\\ | - |",
    ]
    assert lines[-1] == "- 95 % of Δ"


def test_markdown_escapes_html_and_links() -> None:
    name = "<script>alert(1)</script> `x` ![](http://a) &lt; \\|\n"
    text = as_markdown(Table(name, (name,), ((Cell(name),),), (name, "run `upcl audit`")))
    title, _, header, _, row, _, *notes = text.splitlines()
    escaped = r"&lt;script&gt;alert(1)&lt;/script&gt; \`x\` !\[\](http://a) &amp;lt; \\\|\\n"
    assert (title, header, row) == (f"### {escaped}", f"| {escaped} |", f"| {escaped} |")
    assert notes == [f"- {escaped.replace(chr(92) + '`', '`')}", "- run `upcl audit`"]
    assert format_tables(Report("<b>", (), ()), "md") == "# &lt;b&gt;\n\n"


def test_no_format_contains_control_characters() -> None:
    name = "a\x1b[31m\x9b\u202e\udce9"
    table = Table(name, (name,), ((Cell(name, name),),), (name,))
    for kind, write in TABLE_FORMATS.items():
        assert not set(write([table])) & set("\x1b\x9b\u202e\udce9"), kind
    assert json.loads(TABLE_FORMATS["json"]([table]))[0]["title"] == name


def test_csv_marks_formulas_on_request() -> None:
    table = Table("@x", ("method", "-y"), ((Cell("+Cos", "+Cos"), Cell("-1.0", -1.0)),))
    assert as_csv([table]) == "table,method,-y,notes\n@x,+Cos,-1.0,\n"
    assert as_csv([table], spreadsheet_safe=True) == "table,method,'-y,notes\n'@x,'+Cos,-1.0,\n"
    report = Report("Runs", (), (Section("table", "Results", "", tables=(table,)),))
    assert format_tables(report, "csv", spreadsheet_safe=True) == as_csv([table], spreadsheet_safe=True)


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
    names = ("Results", "Memory", "Further metrics")
    assert {row["table"] for row in rows} == {*(f"{name}: evil & co, 3 tasks" for name in names), "Paired differences"}
    assert all(None not in row and None not in row.values() for row in rows)
    header = list(rows[0])
    assert header[-1] == "notes" and len(set(header)) == len(header)
    upcl = next(row for row in rows if row["method"] == "UPCL")
    cell = report.tables[0].rows[1][1]
    assert [float(upcl[f"A_last head{part}"]) for part in ("", " sd", " low", " high")] == [
        *(cell.value, cell.std, cell.low, cell.high),
    ]
    paired = next(row for row in rows if row["table"] == "Paired differences")
    assert upcl["against"] == "" and paired["against"] == "UPCL"
    assert "95 %" in upcl["notes"]


def test_json_holds_values_with_their_uncertainty(report: Report) -> None:
    content = json.loads(format_tables(report, "json"))
    first = content[0]["rows"][0]
    assert first[0] == {"text": "iCaRL", "value": "iCaRL"}
    assert first[1]["low"] <= first[1]["value"] <= first[1]["high"] and first[1]["std"] >= 0
    assert content[0]["columns"] == list(report.tables[0].columns)
