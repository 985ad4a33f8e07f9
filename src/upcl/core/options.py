"""Fields that explain and check themselves."""

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
Natural = Annotated[int, Gt(0)]
Finite = Annotated[float, Gt(-math.inf), Lt(math.inf)]
Positive = Annotated[float, Gt(0), Lt(math.inf)]
NonNegative = Annotated[float, Ge(0), Lt(math.inf)]
Fraction = Annotated[float, Ge(0), Lt(1)]


def option(default: Any, meaning: str, source: str = "") -> Any:
    """A dataclass field that explains itself: `upcl show` prints its meaning and where the default comes from."""
    return dataclasses.field(default=default, metadata={"meaning": meaning, "source": source})


T = TypeVar("T")


def parse_options(cls: type[T], text: str, what: str) -> T:
    """A dataclass of whole numbers and words from `key=value,key=value`."""
    known: dict[str, Any] = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        if key not in known:
            raise unknown_choice(f"option of {what}", key, known)
        if isinstance(known[key].default, str):
            values[key] = value
            continue
        try:
            values[key] = int(value)
        except ValueError:
            raise UserError(f"{what}: {key} must be a whole number, not '{value}'") from None
        if values[key] < 0:
            raise UserError(f"{what}: {key} must not be negative")
    return cls(**values)


def format_options(options: Any) -> str:
    """`,key=value` of each option that is not at its default."""
    chosen = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    defaults = {field.name: field.default for field in dataclasses.fields(options)}
    return "".join(f",{key}={value}" for key, value in chosen.items() if value != defaults[key])


def fields_of(cls: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    """The fields of a dataclass that a user may set."""
    return {f.name: f for f in dataclasses.fields(cls) if f.init}


def check_values(cls: type[Any], values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Values converted to the field types of a dataclass; all that is wrong is said at once."""
    known = fields_of(cls)
    for key in values:
        if key not in known:
            raise unknown_choice(what, key, known)
    hints = get_type_hints(cls, include_extras=True)
    shape: Any = {name: (hints[name], None) for name in values}
    model = pydantic.create_model(cls.__name__, **shape)
    try:
        checked = model(**{key: _plain(value) for key, value in values.items()})
    except pydantic.ValidationError as error:
        lines = [f"{'.'.join(map(str, e['loc'][:1]))}: {e['msg']} (got {e['input']!r})" for e in error.errors()]
        raise UserError(f"wrong value of a {what}:\n  " + "\n  ".join(dict.fromkeys(lines))) from None
    return {name: getattr(checked, name) for name in values}


def _plain(value: Any) -> Any:
    """Numbers as text, so that `1` fits a choice named '1' as well as a number; `[1, 2]` and `1,2` as a list."""
    if isinstance(value, str) and re.fullmatch(r"\[.*\]|[\d\s]+(,[\d\s]*)+", value):
        return [part.strip() for part in value.strip("[]").split(",") if part.strip()]
    return str(value) if isinstance(value, int | float) else value
