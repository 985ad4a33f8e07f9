"""Charts as files: PNG, SVG or PDF, drawn with matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import singledispatch
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from upcl.core.files import write_atomic

from .charts import (
    MAX_LABEL_LENGTH,
    PALETTE,
    BarChart,
    Chart,
    Heatmap,
    LineChart,
    Number,
    ScatterChart,
    line_style,
    shorten_label,
)
from .plotly_backend import BAND_OPACITY, BAR_PATTERNS, COLOUR_SCALE, MAX_TICKS

MARKERS = {"circle": "o", "x": "x", "cross": "+"}
DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (8, 3))}
COLOUR_MAP = LinearSegmentedColormap.from_list("page", COLOUR_SCALE)
MAX_INNER_LEGEND = 8  # longer legends are placed below the chart
PANEL_COLUMNS = 3


def save_charts(charts: Sequence[Chart], path: Path) -> Path:
    """Draw charts side by side into one file. Equal charts produce equal files.

    Args:
        charts: the charts.
        path: the file to write; its suffix is the format.

    Returns:
        The path.

    Example:
        >>> import tempfile
        >>> from upcl.research.report.charts import Series
        >>> chart = LineChart("accuracy", "Accuracy", "task", "%", (Series("UPCL", [1, 2], [90.0, 80.0]),))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_charts([chart], Path(folder) / "accuracy.svg").read_bytes()[:5]
        b'<?xml'
    """
    with mpl.rc_context({"svg.hashsalt": "upcl", "pdf.compression": 9}):
        columns = min(PANEL_COLUMNS, len(charts))
        rows = -(-len(charts) // columns)
        width, height = (6.4, 4.2) if len(charts) == 1 else (4.6 * columns, 4.2 * rows)
        figure = Figure(figsize=(width, height), layout="constrained")
        for chart, axes in zip(charts, figure.subplots(rows, columns, squeeze=False).flat, strict=False):
            _plot(chart, axes, figure)
            axes.set_title(_escape(chart.title), fontsize=10)
        for axes in list(figure.axes)[len(charts) : rows * columns]:
            axes.set_visible(False)
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(path.suffix[1:], {})
        content = io.BytesIO()  # on a full disk, matplotlib fails a second time when it closes its file
        figure.savefig(content, format=path.suffix[1:], dpi=120, metadata=metadata)
    write_atomic(path, content.getbuffer())
    return path


def _escape(name: str) -> str:
    """A name as it is: no mathematics between dollar signs, and a replacement for what is not valid text."""
    return name.encode(errors="replace").decode().replace("$", r"\$")


def _tick_labels(names: Sequence[str]) -> list[str]:
    return [_escape(shorten_label(name)) for name in names]


def _with_nan(values: Sequence[Number]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


@singledispatch
def _plot(chart: Chart, axes: Any, figure: Figure) -> None:  # noqa: ARG001
    raise TypeError(f"{type(chart).__name__} is not a chart")


@_plot.register
def _(chart: LineChart, axes: Any, figure: Figure) -> None:  # noqa: ARG001
    right = axes.twinx() if chart.secondary_label else None
    artists = []
    for series in chart.series:
        target = right if series.secondary and right else axes
        colour, dash = line_style(series)
        marker = "o" if len(series.x) <= 2 * MAX_TICKS else None
        style = {"color": colour, "marker": marker, "markersize": 3.5, "label": _escape(series.name)}
        artists += target.plot(series.x, _with_nan(series.y), linestyle=DASHES[dash], **style)
        if series.low:
            low, high = _with_nan(series.low), _with_nan(series.high)
            target.fill_between(series.x, low, high, color=colour, alpha=BAND_OPACITY, linewidth=0)
    for boundary in chart.boundaries:
        axes.axvline(boundary, color="grey", linewidth=0.8, linestyle=":")
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    if chart.x_label == "task":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.25)
    if right:
        right.set_ylabel(chart.secondary_label)
    _add_legend(axes, {artist.get_label(): artist for artist in reversed(artists)}, below=bool(chart.secondary_label))


def _add_legend(axes: Any, artists: dict[str, Any], *, below: bool) -> None:
    """Each name once; below the chart if there are many, or if lines may be anywhere."""
    names = list(reversed(artists))
    lines = [artists[name] for name in names]
    if below or len(names) > MAX_INNER_LEGEND:
        columns = 2 if max(map(len, names)) > MAX_LABEL_LENGTH else 4
        placement = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncol": columns}
        axes.legend(lines, names, fontsize=7, frameon=False, **placement)
    elif names:
        axes.legend(lines, names, fontsize=7, frameon=False)


@_plot.register
def _(chart: Heatmap, axes: Any, figure: Figure) -> None:
    values = [_with_nan(row) for row in chart.values]
    image = axes.imshow(values, cmap=COLOUR_MAP, vmin=0, vmax=100, interpolation="nearest")
    for boundary in chart.boundaries:
        axes.axhline(boundary - 0.5, color="grey", linewidth=0.6)
        axes.axvline(boundary - 0.5, color="grey", linewidth=0.6)
    if len(chart.rows) <= MAX_TICKS:
        positions = range(len(chart.rows))
        rotation = 90 if any(len(name) > 3 for name in chart.columns) else 0
        axes.set_xticks(positions, _tick_labels(chart.columns), fontsize=7, rotation=rotation)
        axes.set_yticks(positions, _tick_labels(chart.rows), fontsize=7)
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    figure.colorbar(image, ax=axes, shrink=0.75, label="%")


@_plot.register
def _(chart: ScatterChart, axes: Any, figure: Figure) -> None:  # noqa: ARG001
    for group in chart.groups:
        is_dot = group.marker == "circle"
        style = {"s": 8, "alpha": 0.6, "linewidths": 0} if is_dot else {"s": 60, "linewidths": 1.8}
        colour = PALETTE[group.colour] if is_dot else "black"
        axes.scatter(group.x, group.y, color=colour, marker=MARKERS[group.marker], label=group.name, **style)
    axes.set(xticks=[], yticks=[])
    axes.legend(fontsize=7, frameon=False)


@_plot.register
def _(chart: BarChart, axes: Any, figure: Figure) -> None:  # noqa: ARG001
    width = 0.8 / max(1, len(chart.series))
    for index, series in enumerate(chart.series):
        x = [at + (index - (len(chart.series) - 1) / 2) * width for at in series.x]
        colour, dash = line_style(series)
        style = {"color": colour, "hatch": 2 * BAR_PATTERNS[dash], "label": _escape(series.name)}
        axes.bar(x, _with_nan(series.y), width, **style)
    if len(chart.names) <= MAX_TICKS:
        axes.set_xticks(range(len(chart.names)), _tick_labels(chart.names), fontsize=7)
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    axes.legend(fontsize=7, frameon=False)
