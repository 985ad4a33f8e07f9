"""Options: dataclass fields with a description, checked values, and `key=value` text."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, get_type_hints

import pydantic
from annotated_types import Ge, Gt, Lt

from .errors import UserError, unknown_choice

Count = Annotated[int, Ge(0)]
"""An integer, at least 0."""

Natural = Annotated[int, Gt(0)]
"""An integer, at least 1."""

Finite = Annotated[float, Gt(-math.inf), Lt(math.inf)]
"""A finite number."""

Positive = Annotated[float, Gt(0), Lt(math.inf)]
"""A finite number above 0."""

NonNegative = Annotated[float, Ge(0), Lt(math.inf)]
"""A finite number, at least 0."""

Fraction = Annotated[float, Ge(0), Lt(1)]
"""A number from 0 to 1, 1 excluded."""

T = TypeVar("T")


def option(default: Any, meaning: str, source: str = "") -> Any:
    """Declare a dataclass field that documents itself.

    `upcl show` and the API reference list its meaning and the source of its default.

    Args:
        default: the default value.
        meaning: what the option does, as a phrase.
        source: where the default comes from, such as "paper" or "official code".

    Example:
        >>> @dataclasses.dataclass
        ... class Smoothing:
        ...     strength: Positive = option(0.1, "share of the label mass to spread", "paper")
        >>> Smoothing().strength
        0.1
        >>> fields_of(Smoothing)["strength"].metadata["source"]
        'paper'
    """
    return dataclasses.field(default=default, metadata={"meaning": meaning, "source": source})


def fields_of(cls: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    """List the fields of a dataclass that a user may set.

    Args:
        cls: a dataclass.

    Returns:
        The fields that its constructor accepts, by name.

    Example:
        >>> @dataclasses.dataclass
        ... class Smoothing:
        ...     strength: float = 0.1
        ...     state: int = dataclasses.field(init=False, default=0)
        >>> list(fields_of(Smoothing))
        ['strength']
    """
    return {f.name: f for f in dataclasses.fields(cls) if f.init}


def check_values(cls: type[Any], values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Convert values to the field types of a dataclass.

    Args:
        cls: the dataclass.
        values: values by field name, possibly as text from a command line.
        what: what a key stands for in messages, such as "option of upcl".

    Returns:
        The converted values. Defaults are not filled in.

    Raises:
        UserError: If a key is unknown or values do not fit; the message lists all of the latter.

    Example:
        >>> @dataclasses.dataclass
        ... class Smoothing:
        ...     strength: Positive = option(0.1, "share of the label mass to spread")
        >>> check_values(Smoothing, {"strength": "0.2"}, "option")
        {'strength': 0.2}
        >>> check_values(Smoothing, {"strenght": 1}, "option")
        Traceback (most recent call last):
        upcl.core.errors.UserError: unknown option 'strenght': did you mean strength?
    """
    known = fields_of(cls)
    for key in values:
        if key not in known:
            raise unknown_choice(what, key, known)
    hints = get_type_hints(cls, include_extras=True)
    shape: Any = {name: (hints[name], None) for name in values}
    model = pydantic.create_model(cls.__name__, **shape)
    try:
        checked = model(**{key: _as_text(value) for key, value in values.items()})
    except pydantic.ValidationError as error:
        lines = [f"{'.'.join(map(str, e['loc'][:1]))}: {e['msg']} (got {e['input']!r})" for e in error.errors()]
        raise UserError(f"invalid {what}:\n  " + "\n  ".join(dict.fromkeys(lines))) from None
    return {name: getattr(checked, name) for name in values}


def _as_text(value: Any) -> Any:
    """Numbers as text, so that `1` fits a choice named '1' as well as a number; `[1, 2]` and `1,2` as a list."""
    if isinstance(value, str) and re.fullmatch(r"\[.*\]|[\d\s]+(,[\d\s]*)+", value):
        return [part.strip() for part in value.strip("[]").split(",") if part.strip()]
    return str(value) if isinstance(value, int | float) else value


def parse_options(cls: type[T], text: str, what: str) -> T:
    """Create a dataclass of non-negative numbers and strings from `key=value,key=value`.

    Args:
        cls: the dataclass.
        text: the options; empty for all defaults.
        what: whose options they are, for messages.

    Raises:
        UserError: If a key is unknown or a value is not a non-negative number where one is needed.

    Example:
        >>> @dataclasses.dataclass
        ... class Size:
        ...     width: int = 32
        ...     height: int = 32
        >>> parse_options(Size, "width=64", "size")
        Size(width=64, height=32)
    """
    known: dict[str, Any] = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        if key not in known:
            raise unknown_choice(f"option of {what}", key, known)
        kind = type(known[key].default)
        try:
            values[key] = kind(value)
        except ValueError:
            name = "an integer" if kind is int else "a number"
            raise UserError(f"{what}: {key} must be {name}, not '{value}'") from None
        if kind is not str and not values[key] >= 0:
            raise UserError(f"{what}: {key} must not be negative")
    return cls(**values)


def format_options(options: Any) -> str:
    """Write the options that differ from their defaults as `,key=value`; the inverse of `parse_options`.

    Args:
        options: an instance of a dataclass.

    Example:
        >>> @dataclasses.dataclass
        ... class Size:
        ...     width: int = 32
        ...     height: int = 32
        >>> format_options(Size(width=64))
        ',width=64'
    """
    chosen = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    defaults = {field.name: field.default for field in dataclasses.fields(options)}
    return "".join(f",{key}={value}" for key, value in chosen.items() if value != defaults[key])
