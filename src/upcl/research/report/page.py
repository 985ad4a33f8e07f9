"""One self-contained page, with its style, its script and plotly inside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files

import jinja2
from plotly.offline import get_plotlyjs

from .charts import Chart
from .content import Report
from .plotly_backend import to_plotly


def render_page(report: Report) -> str:
    """Render a report as HTML. Text from data is escaped: a class called `<script>` remains a name.

    Args:
        report: the report.

    Example:
        >>> "<title>a &amp; b</title>" in render_page(Report("a & b", (), ()))
        True
    """
    folder = files(__package__) / "assets"
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    return template.render(
        report=report,
        kinds={chart.key: type(chart).__name__.lower() for chart in report.charts},
        style=(folder / "page.css").read_text(encoding="utf-8"),
        script=(folder / "page.js").read_text(encoding="utf-8"),
        plotly=get_plotlyjs(),
        figures=_figures_json(report.charts),
        version=version("upcl"),
    )


def _figures_json(charts: Sequence[Chart]) -> str:
    """JSON that is safe inside of a script element: no `<` opens a tag, and markup in names is escaped for plotly."""
    figures = {chart.key: _escape_markup(to_plotly(chart)) for chart in charts}
    text = json.dumps(figures, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _escape_markup(value: object) -> object:
    """plotly interprets some HTML in texts; ours are plain, except for its own <extra> in hover templates."""
    if isinstance(value, dict):
        return {key: item if key == "hovertemplate" else _escape_markup(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escape_markup(item) for item in value]
    if isinstance(value, str):
        return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return value
