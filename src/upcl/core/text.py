"""Text from elsewhere that is safe to show."""

from __future__ import annotations

import re
from typing import TypeVar

T = TypeVar("T")

FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""How a text begins that spreadsheets take for a formula."""

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters, which steer a terminal
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # marks that reorder or break what is displayed
    "\ud800-\udfff]"  # surrogates: bytes of a path that are not valid text
)


def printable(text: str, keep: str = "") -> str:
    r"""Escape the characters that would steer a terminal, reorder what is displayed, or cannot be encoded.

    Args:
        text: any text, such as the name of a class in a model from elsewhere.
        keep: characters that stay as they are, such as line breaks.

    Example:
        >>> printable("red\x1b[31m\n")
        'red\\x1b[31m\\n'
        >>> printable("caf\udce9.jpg")  # how Python reads a path that is not UTF-8
        'caf\\xe9.jpg'
    """
    return _UNSAFE.sub(lambda found: found[0] if found[0] in keep else _escaped(found[0]), text)


def _escaped(character: str) -> str:
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    if character >= "\x7f":  # in this form, since JSON may contain these characters as they are
        return f"\\u{ord(character):04x}"
    return character.encode("unicode_escape").decode()


def spreadsheet_cell(value: T) -> T | str:
    """Put an apostrophe before a text that a spreadsheet would take for a formula.

    Args:
        value: the content of a cell; only texts are changed.

    Example:
        >>> spreadsheet_cell("=1+1"), spreadsheet_cell("cat"), spreadsheet_cell(-1.5)
        ("'=1+1", 'cat', -1.5)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULAS) else value


def presentable(text: str, encoding: str, keep: str = "\n\t") -> str:
    r"""Escape what `printable` escapes, but line breaks and tabs, and what an encoding cannot represent.

    Args:
        text: any text.
        encoding: the encoding of the stream that the text is written to.
        keep: characters that stay as they are.

    Example:
        >>> presentable("50 ± 1\n\x07", "ascii")
        '50 \\xb1 1\n\\x07'
    """
    return printable(text, keep).encode(encoding, "backslashreplace").decode(encoding)
