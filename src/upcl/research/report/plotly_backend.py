"""Charts as plotly figures: plain values that the page's script draws. Colours of text and grid come from the page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

from .charts import PALETTE, Bars, Chart, Cloud, Curves, Heat, Line, paint, shortened

Figure = dict[str, Any]
BAND_OPACITY = 0.16
SCALE = ((0.0, "#f7fbff"), (0.25, "#c6dbef"), (0.5, "#6baed6"), (0.75, "#2171b5"), (1.0, "#08306b"))
MARKS = {"circle": "circle", "x": "x-thin", "cross": "cross-thin"}
PATTERNS = {"solid": "", "dash": "/", "dot": ".", "dashdot": "x", "longdash": "-"}  # of bars, by the stroke of lines
TICKS = 20  # names of classes that an axis has room for


@singledispatch
def figure_of(chart: Chart) -> Figure:
    raise TypeError(f"{type(chart).__name__} is not a chart")


@figure_of.register
def _(chart: Curves) -> Figure:
    solid = {line.name for line in chart.lines if not line.second}
    traces = [
        trace for line in chart.lines for trace in _traces(line, chart.second, line.second and line.name in solid)
    ]
    layout: Figure = {
        "xaxis": {"title": {"text": chart.x}, **_whole(chart)},
        "yaxis": {"title": {"text": chart.y}, "rangemode": "tozero"},
        "hovermode": "closest",
        "shapes": [_rule("x", border, "dot") for border in chart.borders],
    }
    if chart.second:
        layout["yaxis2"] = {
            "title": {"text": chart.second},
            "overlaying": "y",
            "side": "right",
            "rangemode": "tozero",
            "showgrid": False,
            "tickformat": ".3~g",
            "tickmode": "auto",
        }
    return {"data": traces, "layout": layout}


def _whole(chart: Curves) -> Figure:
    """A tick for each task, where there are few."""
    last = max((x for line in chart.lines for x in line.x), default=0)
    return {"dtick": 1} if chart.x == "task" and last <= TICKS else {}


def _traces(line: Line, right: str, named_before: bool) -> list[Figure]:
    colour, stroke = paint(line)
    axis = "y2" if line.second else "y"
    made: list[Figure] = []
    if line.low:
        known = [(x, a, b) for x, a, b in zip(line.x, line.low, line.high, strict=True) if a is not None]
        made.append(
            {
                "x": [x for x, *_ in known] + [x for x, *_ in reversed(known)],
                "y": [high for *_, high in known] + [low for _, low, _ in reversed(known)],
                "type": "scatter",
                "mode": "lines",
                "fill": "toself",
                "fillcolor": colour,
                "opacity": BAND_OPACITY,
                "line": {"width": 0},
                "hoverinfo": "skip",
                "showlegend": False,
                "legendgroup": line.name,
                "yaxis": axis,
            }
        )
    few = len(line.x) <= 2 * TICKS
    made.append(
        {
            "x": list(line.x),
            "y": list(line.y),
            "name": line.name,
            "type": "scatter",
            "mode": "lines+markers" if few else "lines",
            "line": {"color": colour, "width": 2, "dash": stroke},
            "marker": {"size": 6},
            "yaxis": axis,
            "legendgroup": line.name,
            "showlegend": not named_before,
            "hovertemplate": f"{right if line.second else ''} %{{y:.4~g}} at %{{x}}<extra>%{{fullData.name}}</extra>",
        }
    )
    return made


@figure_of.register
def _(chart: Heat) -> Figure:
    """Names stand on the axes, as categories: hovering tells them without a text for each cell."""
    named = len(chart.rows) <= TICKS
    axes = {"type": "category", "showticklabels": named, "ticks": "", "showgrid": False, "zeroline": False}
    trace = {
        "z": [[_short(value) for value in row] for row in chart.values],
        "x": list(chart.columns),
        "y": list(chart.rows),
        "type": "heatmap",
        "zmin": 0,
        "zmax": 100,
        "colorscale": SCALE,
        "hovertemplate": "%{y} / %{x}: %{z:.1f} %<extra></extra>",
        "colorbar": {"thickness": 10, "outlinewidth": 0},
    }
    layout = {
        "xaxis": {**axes, **_ticks(chart.columns), "title": {"text": chart.x}},
        "yaxis": {
            **axes,
            **_ticks(chart.rows),
            "title": {"text": chart.y},
            "autorange": "reversed",
            "scaleanchor": "x",
            "constrain": "domain",
        },
        "shapes": [_rule(axis, border - 0.5, "solid", len(chart.rows)) for border in chart.borders for axis in "xy"],
    }
    return {"data": [trace], "layout": layout}


def _ticks(names: Sequence[str]) -> Figure:
    """Ticks stand at names, not at their places: plotly takes a place for the class of that name, if any."""
    if len(names) > TICKS:
        return {}
    return {"tickmode": "array", "tickvals": list(names), "ticktext": [shortened(name) for name in names]}


def _short(value: float | None) -> float | None:
    """Whole numbers without their point: most cells of a large matrix are 0."""
    return int(value) if value is not None and value == int(value) else value


def _rule(axis: str, at: float, dash: str, size: int = 0) -> Figure:
    """A thin line across the whole chart, or across a square of this size."""
    other = "y" if axis == "x" else "x"
    line = {"width": 1, "dash": dash, "color": "rgba(128,128,128,0.7)"}
    low, high = (-0.5, size - 0.5) if size else (0, 1)
    ends = {f"{axis}0": at, f"{axis}1": at, f"{other}0": low, f"{other}1": high}
    return {"type": "line", f"{axis}ref": axis, f"{other}ref": other if size else "paper", "line": line, **ends}


@figure_of.register
def _(chart: Cloud) -> Figure:
    traces = []
    for group in chart.groups:
        colour = PALETTE[group.colour]
        point = group.mark == "circle"
        size = {"size": 5, "opacity": 0.6, "line": {"width": 0}} if point else {"size": 11, "line": {"width": 2.5}}
        size["line"] = {**size["line"], "color": colour if point else "#111111"}  # type: ignore[dict-item]
        traces.append(
            {
                "x": list(group.x),
                "y": list(group.y),
                "text": list(group.words),
                "name": group.name,
                "type": "scatter",
                "mode": "markers",
                "marker": {"color": colour, "symbol": MARKS[group.mark], **size},
                "hovertemplate": "%{text}<extra>%{fullData.name}</extra>",
            }
        )
    hidden = {"showticklabels": False, "showgrid": False, "zeroline": False}
    return {"data": traces, "layout": {"xaxis": hidden, "yaxis": hidden}}


@figure_of.register
def _(chart: Bars) -> Figure:
    traces = [
        {
            "x": list(line.x),
            "y": list(line.y),
            "text": list(chart.names[: len(line.x)]),
            "textposition": "none",
            "name": line.name,
            "type": "bar",
            "marker": {"color": paint(line)[0], "pattern": {"shape": PATTERNS[paint(line)[1]]}},
            "hovertemplate": "%{text}: %{y:.1f}<extra>%{fullData.name}</extra>",
        }
        for line in chart.lines
    ]
    named = len(chart.names) <= TICKS
    ticks = (
        {"tickvals": list(range(len(chart.names))), "ticktext": [shortened(n) for n in chart.names]} if named else {}
    )
    layout = {"xaxis": {"title": {"text": chart.x}, **ticks}, "yaxis": {"title": {"text": chart.y}}, "barmode": "group"}
    return {"data": traces, "layout": layout}
