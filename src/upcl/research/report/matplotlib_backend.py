"""Charts as files: PNG, SVG or PDF, by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from upcl.core.files import atomic_path

from .charts import LONGEST, PALETTE, Bars, Chart, Cloud, Curves, Heat, paint, shortened
from .plotly_backend import BAND_OPACITY, PATTERNS, SCALE, TICKS

MARKS = {"circle": "o", "x": "x", "cross": "+"}
STROKES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (8, 3))}
COLOURS = LinearSegmentedColormap.from_list("page", SCALE)
LEGEND_LINES = 8  # more go below the chart
PANEL_COLUMNS = 3


def draw(charts: Sequence[Chart], path: Path) -> Path:
    """One file with these charts, side by side; the format is the path's suffix. Equal charts make equal files."""
    with mpl.rc_context({"svg.hashsalt": "upcl", "pdf.compression": 9}):
        columns = min(PANEL_COLUMNS, len(charts))
        rows = -(-len(charts) // columns)
        width, height = (6.4, 4.2) if len(charts) == 1 else (4.6 * columns, 4.2 * rows)
        figure = Figure(figsize=(width, height), layout="constrained")
        for chart, axes in zip(charts, figure.subplots(rows, columns, squeeze=False).flat, strict=False):
            _draw(chart, axes, figure)
            axes.set_title(_text(chart.title), fontsize=10)
        for axes in list(figure.axes)[len(charts) : rows * columns]:
            axes.set_visible(False)
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(path.suffix[1:], {})
        with atomic_path(path) as partial:
            figure.savefig(partial, format=path.suffix[1:], dpi=120, metadata=metadata)
    return path


def _text(name: str) -> str:
    """A name as it is: no mathematics between dollar signs, and a sign for what is no text."""
    return name.encode(errors="replace").decode().replace("$", r"\$")


def _texts(names: Sequence[str]) -> list[str]:
    return [_text(shortened(name)) for name in names]


@singledispatch
def _draw(chart: Chart, axes: Any, figure: Figure) -> None:  # noqa: ARG001
    raise TypeError(f"{type(chart).__name__} is not a chart")


@_draw.register
def _(chart: Curves, axes: Any, figure: Figure) -> None:  # noqa: ARG001
    right = axes.twinx() if chart.second else None
    drawn = []
    for line in chart.lines:
        on = right if line.second and right else axes
        colour, stroke = paint(line)
        y = [float("nan") if value is None else value for value in line.y]
        few = len(line.x) <= 2 * TICKS
        style = {"color": colour, "marker": "o" if few else None, "markersize": 3.5, "label": _text(line.name)}
        drawn += on.plot(line.x, y, linestyle=STROKES[stroke], **style)
        if line.low:
            low, high = ([float("nan") if v is None else v for v in edge] for edge in (line.low, line.high))
            on.fill_between(line.x, low, high, color=colour, alpha=BAND_OPACITY, linewidth=0)
    for border in chart.borders:
        axes.axvline(border, color="grey", linewidth=0.8, linestyle=":")
    axes.set(xlabel=chart.x, ylabel=chart.y)
    if chart.x == "task":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.25)
    if right:
        right.set_ylabel(chart.second)
    _legend(axes, {each.get_label(): each for each in reversed(drawn)}, outside=bool(chart.second))


def _legend(axes: Any, drawn: dict[str, Any], *, outside: bool) -> None:
    """Each name once; below the chart where there are many, or where lines go everywhere."""
    names = list(reversed(drawn))
    lines = [drawn[name] for name in names]
    if outside or len(names) > LEGEND_LINES:
        columns = 2 if max(map(len, names)) > LONGEST else 4
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncol": columns}
        axes.legend(lines, names, fontsize=7, frameon=False, **below)
    elif names:
        axes.legend(lines, names, fontsize=7, frameon=False)


@_draw.register
def _(chart: Heat, axes: Any, figure: Figure) -> None:
    values = [[float("nan") if value is None else value for value in row] for row in chart.values]
    image = axes.imshow(values, cmap=COLOURS, vmin=0, vmax=100, interpolation="nearest")
    for border in chart.borders:
        axes.axhline(border - 0.5, color="grey", linewidth=0.6)
        axes.axvline(border - 0.5, color="grey", linewidth=0.6)
    if len(chart.rows) <= TICKS:
        places = range(len(chart.rows))
        axes.set_xticks(places, _texts(chart.columns), fontsize=7, rotation=90 if _long(chart) else 0)
        axes.set_yticks(places, _texts(chart.rows), fontsize=7)
    axes.set(xlabel=chart.x, ylabel=chart.y)
    figure.colorbar(image, ax=axes, shrink=0.75, label="%")


def _long(chart: Heat) -> bool:
    return any(len(name) > 3 for name in chart.columns)


@_draw.register
def _(chart: Cloud, axes: Any, figure: Figure) -> None:  # noqa: ARG001
    for group in chart.groups:
        point = group.mark == "circle"
        style = {"s": 8, "alpha": 0.6, "linewidths": 0} if point else {"s": 60, "linewidths": 1.8}
        colour = PALETTE[group.colour] if point else "black"
        axes.scatter(group.x, group.y, color=colour, marker=MARKS[group.mark], label=group.name, **style)
    axes.set(xticks=[], yticks=[])
    axes.legend(fontsize=7, frameon=False)


@_draw.register
def _(chart: Bars, axes: Any, figure: Figure) -> None:  # noqa: ARG001
    width = 0.8 / max(1, len(chart.lines))
    for place, line in enumerate(chart.lines):
        x = [at + (place - (len(chart.lines) - 1) / 2) * width for at in line.x]
        heights = [float("nan") if value is None else value for value in line.y]
        colour, stroke = paint(line)
        axes.bar(x, heights, width, color=colour, hatch=2 * PATTERNS[stroke], label=_text(line.name))
    if len(chart.names) <= TICKS:
        axes.set_xticks(range(len(chart.names)), _texts(chart.names), fontsize=7)
    axes.set(xlabel=chart.x, ylabel=chart.y)
    axes.legend(fontsize=7, frameon=False)
