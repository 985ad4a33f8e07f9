"""Reports written down: a page, tables or figures."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from upcl.core.errors import UserError
from upcl.core.files import write_atomic

from .charts import Chart
from .content import Content
from .tables import FORMATS

PICTURES = ("png", "svg", "pdf")


def can_write() -> bool:
    """Whether what pages and figures need is installed."""
    return all(importlib.util.find_spec(name) for name in ("jinja2", "plotly", "matplotlib"))


def _need() -> None:
    if not can_write():
        raise UserError("pages and figures need more packages: pip install -c constraints.txt -e '.[report]'")


def write_page(content: Content, path: Path) -> Path:
    """One HTML file, whole or not there."""
    _need()
    from .page import page

    text = page(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.encode(errors="replace"))  # names of files may be no text
    return path


def write(content: Content, kind: str, path: Path) -> list[Path]:
    """A page, the tables (a file) or the figures (a folder); what was written."""
    if kind in PICTURES:
        return list(write_figures(content, path, kind))
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file, such as {path / 'report'}.{kind}")
    if kind == "html":
        return [write_page(content, path)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, table_text(content, kind).encode(errors="replace"))
    return [path]


def table_text(content: Content, kind: str) -> str:
    """The tables alone; Markdown begins with the title."""
    title = f"# {content.title}\n\n" if kind == "md" else ""
    return title + FORMATS[kind](content.tables)


def write_figures(content: Content, folder: Path, kind: str) -> Iterator[Path]:
    """A file for each figure; panels of one kind, such as confusion matrices, share a file."""
    _need()
    from .matplotlib_backend import draw

    folder.mkdir(parents=True, exist_ok=True)
    for section in content.sections:
        for stem, charts in groupby(section.charts, key=_stem):
            yield draw(list(charts), folder / f"{stem}.{kind}")


def _stem(chart: Chart) -> str:
    """The key without the place of a panel: confusion-3 belongs to confusion."""
    name, _, place = chart.key.rpartition("-")
    return name if place.isdigit() else chart.key
