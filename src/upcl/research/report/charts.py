"""What a figure shows, apart from how it is drawn: the page draws it with plotly, files with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Number = float | None
PALETTE = ("#4269d0", "#c9850a", "#d6483f", "#3a9d8f", "#3f8f4a", "#d65f9b", "#8f5fd0", "#6f8fb8", "#8a6a4a", "#7a7f87")
STROKES = ("solid", "dot", "dashdot", "longdash")
LONGEST = 18  # letters of a name on an axis
OLD, NEW = 0, 4  # places in the palette: the paper's blue for old classes, green for new ones


@dataclass(frozen=True)
class Line:
    """One curve; `low` and `high` bound a band around it, `second` puts it on the axis on the right, dashed.

    Lines of one chart have colours 0, 1, ...; beyond the palette colours come again with another stroke.
    """

    name: str
    x: Sequence[float]
    y: Sequence[Number]
    low: Sequence[Number] = ()
    high: Sequence[Number] = ()
    colour: int = 0
    second: bool = False


@dataclass(frozen=True)
class Curves:
    """Lines over one axis."""

    key: str
    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    second: str = ""
    borders: tuple[float, ...] = ()


@dataclass(frozen=True)
class Heat:
    """A matrix in colours, row 0 on top; thin lines at the `borders` between tasks."""

    key: str
    title: str
    x: str
    y: str
    values: Sequence[Sequence[Number]]
    columns: Sequence[str]
    rows: Sequence[str]
    borders: tuple[int, ...] = ()


@dataclass(frozen=True)
class Group:
    """Points of one kind in a cloud."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    words: Sequence[str]
    colour: int
    mark: str = "circle"  # or "x", "cross"


@dataclass(frozen=True)
class Cloud:
    """Points on a map whose axes mean nothing."""

    key: str
    title: str
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class Bars:
    """A bar for each name, side by side for each line."""

    key: str
    title: str
    x: str
    y: str
    names: Sequence[str]
    lines: tuple[Line, ...]


def shortened(name: str) -> str:
    """A name that an axis has room for."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def paint(line: Line) -> tuple[str, str]:
    """Colour and stroke of a line."""
    stroke = "dash" if line.second else STROKES[line.colour // len(PALETTE) % len(STROKES)]
    return PALETTE[line.colour % len(PALETTE)], stroke


Chart = Curves | Heat | Cloud | Bars
