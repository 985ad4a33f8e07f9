"""What a figure shows, independent of how it is drawn: the page draws it with plotly, files with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Number = float | None
PALETTE = ("#4269d0", "#c9850a", "#d6483f", "#3a9d8f", "#3f8f4a", "#d65f9b", "#8f5fd0", "#6f8fb8", "#8a6a4a", "#7a7f87")
DASHES = ("solid", "dot", "dashdot", "longdash")
MAX_LABEL_LENGTH = 18  # characters of a name on an axis
OLD_COLOUR, NEW_COLOUR = 0, 4  # indices into the palette: the paper's blue for old classes, green for new ones


@dataclass(frozen=True)
class Series:
    """A named sequence of points: a line of a line chart or the bars of one colour.

    Args:
        name: entry in the legend.
        x: horizontal positions.
        y: values; None leaves a gap.
        low: lower edge of a band around the line.
        high: upper edge of the band.
        colour: index of the colour; beyond the palette, colours repeat with another dash pattern.
        secondary: draw it dashed against the axis on the right.

    Example:
        >>> Series("UPCL", x=[1, 2], y=[90.0, None], low=[88.0, None], high=[92.0, None]).name
        'UPCL'
    """

    name: str
    x: Sequence[float]
    y: Sequence[Number]
    low: Sequence[Number] = ()
    high: Sequence[Number] = ()
    colour: int = 0
    secondary: bool = False


@dataclass(frozen=True)
class LineChart:
    """Lines over a common horizontal axis.

    Args:
        key: unique name of the chart; also the name of its file.
        title: heading.
        x_label: label of the horizontal axis.
        y_label: label of the vertical axis.
        series: the lines.
        secondary_label: label of the axis on the right, if there is one.
        boundaries: positions of vertical rules, such as where a task ends.

    Example:
        >>> chart = LineChart("accuracy", "Accuracy", "task", "% correct", (Series("UPCL", [1, 2], [90.0, 80.0]),))
        >>> chart.boundaries
        ()
    """

    key: str
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    secondary_label: str = ""
    boundaries: tuple[float, ...] = ()


@dataclass(frozen=True)
class Heatmap:
    """A matrix in colours, with row 0 at the top.

    Args:
        key: unique name of the chart.
        title: heading.
        x_label: label of the horizontal axis.
        y_label: label of the vertical axis.
        values: rows of percentages; None leaves a cell empty.
        columns: names of the columns.
        rows: names of the rows.
        boundaries: indices before which a thin rule separates two tasks.

    Example:
        >>> Heatmap("confusion", "UPCL", "predicted as", "class", [[100.0]], columns=["owl"], rows=["owl"]).values
        [[100.0]]
    """

    key: str
    title: str
    x_label: str
    y_label: str
    values: Sequence[Sequence[Number]]
    columns: Sequence[str]
    rows: Sequence[str]
    boundaries: tuple[int, ...] = ()


@dataclass(frozen=True)
class PointGroup:
    """Points of one kind in a scatter chart.

    Args:
        name: entry in the legend.
        x: horizontal positions.
        y: vertical positions.
        labels: text of each point, shown on hover.
        colour: index into the palette.
        marker: "circle", "x" or "cross".

    Example:
        >>> PointGroup("prototypes", x=[0.0], y=[1.0], labels=["owl"], colour=OLD_COLOUR, marker="x").labels
        ['owl']
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    labels: Sequence[str]
    colour: int
    marker: str = "circle"


@dataclass(frozen=True)
class ScatterChart:
    """A map of points whose axes have no unit.

    Args:
        key: unique name of the chart.
        title: heading.
        groups: the points by kind.

    Example:
        >>> len(ScatterChart("map", "UPCL", (PointGroup("owls", [0.0], [1.0], ["owl"], NEW_COLOUR),)).groups)
        1
    """

    key: str
    title: str
    groups: tuple[PointGroup, ...]


@dataclass(frozen=True)
class BarChart:
    """Grouped bars.

    Args:
        key: unique name of the chart.
        title: heading.
        x_label: label of the horizontal axis.
        y_label: label of the vertical axis.
        names: names of the groups.
        series: one bar per group each.

    Example:
        >>> BarChart("forgetting", "Forgetting", "class", "points", ["owl"], (Series("UPCL", [0], [5.0]),)).names
        ['owl']
    """

    key: str
    title: str
    x_label: str
    y_label: str
    names: Sequence[str]
    series: tuple[Series, ...]


def shorten_label(name: str) -> str:
    """Shorten a name to what fits on an axis.

    Args:
        name: the full name.

    Example:
        >>> shorten_label("owl"), shorten_label("great crested grebe")
        ('owl', 'great crested gre…')
    """
    return name if len(name) <= MAX_LABEL_LENGTH else f"{name[: MAX_LABEL_LENGTH - 1]}…"


def line_style(series: Series) -> tuple[str, str]:
    """Choose the colour and the dash pattern of a line.

    Args:
        series: the line.

    Example:
        >>> line_style(Series("UPCL", [], [], colour=1)), line_style(Series("WA", [], [], colour=11))
        (('#c9850a', 'solid'), ('#c9850a', 'dot'))
    """
    dash = "dash" if series.secondary else DASHES[series.colour // len(PALETTE) % len(DASHES)]
    return PALETTE[series.colour % len(PALETTE)], dash


Chart = LineChart | Heatmap | ScatterChart | BarChart
