"""One self-contained page: its style, its script and one copy of plotly's are inside of it."""

from __future__ import annotations

import json
from importlib.metadata import version
from importlib.resources import files

import jinja2
from plotly.offline import get_plotlyjs

from .charts import Chart
from .content import Content
from .plotly_backend import figure_of


def page(content: Content) -> str:
    """The page as text. Whatever comes from data is escaped: a class called `<script>` stays a name."""
    folder = files(__package__) / "assets"
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    return template.render(
        content=content,
        kinds={chart.key: type(chart).__name__.lower() for chart in content.charts},
        style=(folder / "page.css").read_text(encoding="utf-8"),
        script=(folder / "page.js").read_text(encoding="utf-8"),
        plotly=get_plotlyjs(),
        figures=_embedded(content.charts),
        version=version("upcl"),
    )


def _embedded(charts: list[Chart]) -> str:
    """JSON that can stand inside of a script: no `<` opens a tag, and plotly's own mark-up in names is defused."""
    figures = {chart.key: _plain(figure_of(chart)) for chart in charts}
    text = json.dumps(figures, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plain(value: object) -> object:
    """plotly reads a little HTML in texts; those of ours are plain, but for its own <extra> in hover templates."""
    if isinstance(value, dict):
        return {key: item if key == "hovertemplate" else _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return value
