from __future__ import annotations

import json

import pytest

from upcl.core.text import presentable, printable, spreadsheet_cell

HOSTILE = "\x1b[31m \x07 \x7f \x9b \r \u202e \u2066 \u200f \u2028"


def test_control_characters_and_marks_of_direction_are_escaped() -> None:
    assert printable("a\x1b[31mb\nc\x9b\u202e") == "a\\x1b[31mb\\nc\\u009b\\u202e"
    assert printable("été [x] <b> 猫 👍") == "été [x] <b> 猫 👍"
    assert printable(HOSTILE).isascii() and printable(HOSTILE).isprintable()


def test_bytes_of_a_path_that_are_not_text_are_escaped() -> None:
    assert printable("caf\udce9 \ud800") == "caf\\xe9 \\ud800"


def test_lines_stay_and_what_cannot_be_encoded_is_escaped() -> None:
    assert presentable("a\tb\nc\r", "utf-8") == "a\tb\nc\\r"
    assert presentable("é 猫", "ascii") == "\\xe9 \\u732b"
    assert presentable("é 猫", "latin-1") == "é \\u732b"


def test_escaped_json_is_still_json() -> None:
    assert json.loads(presentable(json.dumps(HOSTILE), "utf-8")) == HOSTILE


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx"])
def test_formulas_are_marked(text: str) -> None:
    assert spreadsheet_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["cat", "", "a=1", -1.5, True, None])
def test_other_cells_stay(value: object) -> None:
    assert spreadsheet_cell(value) is value
