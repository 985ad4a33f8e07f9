"""Charts as plotly figures: plain values that the page's script draws. Colours of text and grid come from the page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

from .charts import (
    PALETTE,
    BarChart,
    Chart,
    Heatmap,
    LineChart,
    PointGroup,
    ScatterChart,
    Series,
    line_style,
    shorten_label,
)

PlotlyFigure = dict[str, Any]
BAND_OPACITY = 0.16
COLOUR_SCALE = ((0.0, "#f7fbff"), (0.25, "#c6dbef"), (0.5, "#6baed6"), (0.75, "#2171b5"), (1.0, "#08306b"))
MARKERS = {"circle": "circle", "x": "x-thin", "cross": "cross-thin"}
BAR_PATTERNS = {"solid": "", "dash": "/", "dot": ".", "dashdot": "x", "longdash": "-"}  # by the dash pattern of lines
MAX_TICKS = 20  # class names that fit on an axis


@singledispatch
def to_plotly(chart: Chart) -> PlotlyFigure:
    """Convert a chart to a plotly figure.

    Args:
        chart: the chart.

    Returns:
        A dictionary with `data` and `layout`.

    Example:
        >>> chart = LineChart("accuracy", "Accuracy", "task", "%", (Series("UPCL", [1, 2], [90.0, 80.0]),))
        >>> to_plotly(chart)["data"][0]["y"]
        [90.0, 80.0]
    """
    raise TypeError(f"{type(chart).__name__} is not a chart")


@to_plotly.register
def _(chart: LineChart) -> PlotlyFigure:
    primary = {series.name for series in chart.series if not series.secondary}
    traces: list[PlotlyFigure] = []
    for series in chart.series:
        if series.low:
            traces.append(_band_trace(series))
        in_legend = not (series.secondary and series.name in primary)
        traces.append(_line_trace(series, chart.secondary_label, in_legend=in_legend))
    layout: PlotlyFigure = {
        "xaxis": {"title": {"text": chart.x_label}, **_task_ticks(chart)},
        "yaxis": {"title": {"text": chart.y_label}, "rangemode": "tozero"},
        "hovermode": "closest",
        "shapes": [_rule("x", boundary, "dot") for boundary in chart.boundaries],
    }
    if chart.secondary_label:
        layout["yaxis2"] = {
            "title": {"text": chart.secondary_label},
            "overlaying": "y",
            "side": "right",
            "rangemode": "tozero",
            "showgrid": False,
            "tickformat": ".3~g",
            "tickmode": "auto",
        }
    return {"data": traces, "layout": layout}


def _task_ticks(chart: LineChart) -> PlotlyFigure:
    """A tick for each task, unless there are many."""
    last = max((x for series in chart.series for x in series.x), default=0)
    return {"dtick": 1} if chart.x_label == "task" and last <= MAX_TICKS else {}


def _band_trace(series: Series) -> PlotlyFigure:
    points = [(x, a, b) for x, a, b in zip(series.x, series.low, series.high, strict=True) if a is not None]
    return {
        "x": [x for x, *_ in points] + [x for x, *_ in reversed(points)],
        "y": [high for *_, high in points] + [low for _, low, _ in reversed(points)],
        "type": "scatter",
        "mode": "lines",
        "fill": "toself",
        "fillcolor": line_style(series)[0],
        "opacity": BAND_OPACITY,
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
        "legendgroup": series.name,
        "yaxis": "y2" if series.secondary else "y",
    }


def _line_trace(series: Series, secondary_label: str, *, in_legend: bool) -> PlotlyFigure:
    colour, dash = line_style(series)
    quantity = secondary_label if series.secondary else ""
    return {
        "x": list(series.x),
        "y": list(series.y),
        "name": series.name,
        "type": "scatter",
        "mode": "lines+markers" if len(series.x) <= 2 * MAX_TICKS else "lines",
        "line": {"color": colour, "width": 2, "dash": dash},
        "marker": {"size": 6},
        "yaxis": "y2" if series.secondary else "y",
        "legendgroup": series.name,
        "showlegend": in_legend,
        "hovertemplate": f"{quantity} %{{y:.4~g}} at %{{x}}<extra>%{{fullData.name}}</extra>",
    }


@to_plotly.register
def _(chart: Heatmap) -> PlotlyFigure:
    """Names are categories of the axes, so that hovering shows them without a text for each cell."""
    named = len(chart.rows) <= MAX_TICKS
    axes = {"type": "category", "showticklabels": named, "ticks": "", "showgrid": False, "zeroline": False}
    trace = {
        "z": [[_without_point(value) for value in row] for row in chart.values],
        "x": list(chart.columns),
        "y": list(chart.rows),
        "type": "heatmap",
        "zmin": 0,
        "zmax": 100,
        "colorscale": COLOUR_SCALE,
        "hovertemplate": "%{y} / %{x}: %{z:.1f} %<extra></extra>",
        "colorbar": {"thickness": 10, "outlinewidth": 0},
    }
    size = len(chart.rows)
    layout = {
        "xaxis": {**axes, **_category_ticks(chart.columns), "title": {"text": chart.x_label}},
        "yaxis": {
            **axes,
            **_category_ticks(chart.rows),
            "title": {"text": chart.y_label},
            "autorange": "reversed",
            "scaleanchor": "x",
            "constrain": "domain",
        },
        "shapes": [_rule(axis, boundary - 0.5, "solid", size) for boundary in chart.boundaries for axis in "xy"],
    }
    return {"data": [trace], "layout": layout}


def _category_ticks(names: Sequence[str]) -> PlotlyFigure:
    """Ticks at names rather than indices: plotly would take an index for the class of that name, if there is one."""
    if len(names) > MAX_TICKS:
        return {}
    return {"tickmode": "array", "tickvals": list(names), "ticktext": [shorten_label(name) for name in names]}


def _without_point(value: float | None) -> float | None:
    """Integers without a decimal point: most cells of a large matrix are 0."""
    return int(value) if value is not None and value == int(value) else value


def _rule(axis: str, at: float, dash: str, size: int = 0) -> PlotlyFigure:
    """A thin line across the chart, or across a square of this size."""
    other = "y" if axis == "x" else "x"
    line = {"width": 1, "dash": dash, "color": "rgba(128,128,128,0.7)"}
    low, high = (-0.5, size - 0.5) if size else (0, 1)
    ends = {f"{axis}0": at, f"{axis}1": at, f"{other}0": low, f"{other}1": high}
    return {"type": "line", f"{axis}ref": axis, f"{other}ref": other if size else "paper", "line": line, **ends}


@to_plotly.register
def _(chart: ScatterChart) -> PlotlyFigure:
    hidden = {"showticklabels": False, "showgrid": False, "zeroline": False}
    traces = [
        {
            "x": list(group.x),
            "y": list(group.y),
            "text": list(group.labels),
            "name": group.name,
            "type": "scatter",
            "mode": "markers",
            "marker": _marker(group),
            "hovertemplate": "%{text}<extra>%{fullData.name}</extra>",
        }
        for group in chart.groups
    ]
    return {"data": traces, "layout": {"xaxis": hidden, "yaxis": hidden}}


def _marker(group: PointGroup) -> PlotlyFigure:
    """Small dots for images, large crosses in the colour of the text for prototypes."""
    colour = PALETTE[group.colour]
    style: PlotlyFigure = {"size": 11, "line": {"width": 2.5, "color": "#111111"}}
    if group.marker == "circle":
        style = {"size": 5, "opacity": 0.6, "line": {"width": 0, "color": colour}}
    return {"color": colour, "symbol": MARKERS[group.marker], **style}


@to_plotly.register
def _(chart: BarChart) -> PlotlyFigure:
    traces = []
    for series in chart.series:
        colour, dash = line_style(series)
        traces.append(
            {
                "x": list(series.x),
                "y": list(series.y),
                "text": list(chart.names[: len(series.x)]),
                "textposition": "none",
                "name": series.name,
                "type": "bar",
                "marker": {"color": colour, "pattern": {"shape": BAR_PATTERNS[dash]}},
                "hovertemplate": "%{text}: %{y:.1f}<extra>%{fullData.name}</extra>",
            }
        )
    ticks: PlotlyFigure = {}
    if len(chart.names) <= MAX_TICKS:
        labels = [shorten_label(name) for name in chart.names]
        ticks = {"tickvals": list(range(len(chart.names))), "ticktext": labels}
    layout = {
        "xaxis": {"title": {"text": chart.x_label}, **ticks},
        "yaxis": {"title": {"text": chart.y_label}},
        "barmode": "group",
    }
    return {"data": traces, "layout": layout}
