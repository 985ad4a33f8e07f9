"""Options: fields, checked values and text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from upcl.core.errors import UserError
from upcl.core.options import (
    Count,
    Finite,
    Fraction,
    Natural,
    NonNegative,
    Positive,
    check_values,
    fields_of,
    format_options,
    option,
    parse_options,
)


@dataclass(kw_only=True)
class Everything:
    count: Count = option(0, "a count")
    natural: Natural = option(1, "a natural number", "somewhere")
    finite: Finite = option(0.0, "a number")
    positive: Positive = option(1.0, "a positive number")
    weight: NonNegative = option(0.0, "a weight")
    share: Fraction = option(0.5, "a share")
    choice: Literal["1", "two"] = option("1", "a choice")
    numbers: tuple[int, ...] = option((), "some numbers")
    flag: bool = option(False, "a flag")
    state: int = field(init=False, default=0)


def test_only_fields_of_the_constructor_are_options() -> None:
    known = fields_of(Everything)
    assert "state" not in known and len(known) == 9
    assert known["natural"].metadata == {"meaning": "a natural number", "source": "somewhere"}


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("count", "3", 3),
        ("positive", "1e-3", 0.001),
        ("positive", 2, 2.0),
        ("choice", 1, "1"),
        ("choice", "two", "two"),
        ("numbers", "[1, 2]", (1, 2)),
        ("numbers", "1,2", (1, 2)),
        ("numbers", [1, 2], (1, 2)),
        ("flag", "true", True),
        ("flag", True, True),
    ],
)
def test_values_are_converted(key: str, value: Any, wanted: Any) -> None:
    assert check_values(Everything, {key: value}, "option") == {key: wanted}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("count", -1),
        ("count", 1.5),
        ("natural", 0),
        ("finite", "inf"),
        ("finite", "nan"),
        ("positive", 0),
        ("weight", -0.1),
        ("share", 1),
        ("choice", 2),
        ("flag", "maybe"),
    ],
)
def test_values_out_of_range_are_errors(key: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"invalid option of me:\n  {key}: .*got '{value}'"):
        check_values(Everything, {key: value}, "option of me")


def test_all_wrong_values_are_listed_at_once() -> None:
    with pytest.raises(UserError) as error:
        check_values(Everything, {"count": -1, "share": 7, "weight": 1}, "option")
    assert "count" in str(error.value) and "share" in str(error.value) and "weight" not in str(error.value)


def test_an_unknown_key_suggests_the_closest() -> None:
    with pytest.raises(UserError, match="unknown option 'postive': did you mean positive"):
        check_values(Everything, {"postive": 1}, "option")


@dataclass
class Crop:
    size: int = 32
    kind: str = "centre"


@pytest.mark.parametrize(("text", "wanted"), [("", Crop()), ("size=8", Crop(8)), ("kind=x,size=8", Crop(8, "x"))])
def test_options_are_parsed_from_text_and_written_back(text: str, wanted: Crop) -> None:
    assert parse_options(Crop, text, "crop") == wanted
    assert parse_options(Crop, format_options(wanted).lstrip(","), "crop") == wanted


def test_defaults_are_not_written() -> None:
    assert format_options(Crop()) == ""
    assert format_options(Crop(size=8)) == ",size=8"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("siz=8", "unknown option of crop 'siz': did you mean size"),
        ("size=large", "crop: size must be an integer, not 'large'"),
        ("size", "crop: size must be an integer, not ''"),
        ("size=-1", "crop: size must not be negative"),
    ],
)
def test_wrong_text_is_an_error(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_options(Crop, text, "crop")
