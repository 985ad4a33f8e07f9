from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from upcl.cli.predict_output import CSV_HEADER, write_predictions
from upcl.cli.safe_console import SafeConsole
from upcl.model.predictor import NONE_OF_THESE, ImagePrediction, Prediction

RESULTS = [
    ImagePrediction(Path("a.jpg"), Prediction(("cat", "dog"), (0.9, 0.1), familiarity=0.8, known=True)),
    ImagePrediction(b"bytes", Prediction(("[dog]", "cat"), (0.6, 0.4), familiarity=0.1, known=False)),
    ImagePrediction(Path("c.jpg"), error="is not an image"),
]


def test_json_is_one_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert write_predictions(RESULTS, "json", SafeConsole()) == 1
    first, second, third = map(json.loads, capsys.readouterr().out.splitlines())
    ranked = [{"name": "cat", "confidence": 0.9}, {"name": "dog", "confidence": 0.1}]
    assert first == {"image": "a.jpg", "name": "cat", "known": True, "familiarity": 0.8, "top": ranked}
    assert (second["image"], second["name"], second["known"]) == ("-", NONE_OF_THESE, False)
    assert third == {"image": "c.jpg", "error": "is not an image"}


def test_csv_has_a_header_and_a_row_per_image(capsys: pytest.CaptureFixture[str]) -> None:
    assert write_predictions(RESULTS, "csv", SafeConsole()) == 1
    header, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    assert tuple(header) == CSV_HEADER
    assert rows == [
        ["a.jpg", "cat", "0.9000", "True", "cat|dog", "0.9000 0.1000", ""],
        ["-", NONE_OF_THESE, "", "False", "[dog]|cat", "0.6000 0.4000", ""],
        ["c.jpg", "", "", "", "", "", "is not an image"],
    ]


def test_table_escapes_names_and_reports_errors_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    console = SafeConsole(width=80, record=True, file=io.StringIO())
    assert write_predictions(RESULTS, "table", console) == 1
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in console.export_text().splitlines() if "│" in line
    ]
    assert rows == [
        ["a.jpg", "cat", "90%", "dog 10%"],
        ["-", NONE_OF_THESE, "([dog] 60%)", "cat 40%"],
    ]
    assert capsys.readouterr().err == "error: c.jpg: is not an image\n"


def test_no_table_is_printed_if_nothing_can_be_read() -> None:
    console = SafeConsole(width=80, record=True, file=io.StringIO())
    assert write_predictions(RESULTS[2:], "table", console) == 1
    assert console.export_text() == ""


def test_csv_marks_formulas_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = Prediction(("=1+1", "+1"), (0.6, 0.4), familiarity=0.8, known=True)
    results = [ImagePrediction(Path("@a.jpg"), hostile), ImagePrediction(Path("b.jpg"), error="-1")]
    write_predictions(results, "csv", SafeConsole())
    assert capsys.readouterr().out.splitlines()[1].startswith("@a.jpg,=1+1,0.6000,True,=1+1|+1,")
    write_predictions(results, "csv", SafeConsole(), spreadsheet_safe=True)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "'@a.jpg,'=1+1,0.6000,True,'=1+1|+1,0.6000 0.4000,",
        "b.jpg,,,,,,'-1",
    ]
