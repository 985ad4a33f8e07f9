"""Reports written to files: a page, tables or figures."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from upcl.core.errors import UserError
from upcl.core.files import write_atomic

from .charts import Chart
from .content import Report
from .formats import TABLE_FORMATS, as_csv, escape_markdown

FIGURE_FORMATS = ("png", "svg", "pdf")


def has_report_packages() -> bool:
    """Whether the packages that pages and figures need are installed.

    Example:
        >>> has_report_packages()
        True
    """
    return all(importlib.util.find_spec(name) for name in ("jinja2", "plotly", "matplotlib"))


def _require_report_packages() -> None:
    if not has_report_packages():
        raise UserError("pages and figures need additional packages: pip install 'upcl[report]'")


def write_page(report: Report, path: Path) -> Path:
    """Write a report as one HTML file, atomically.

    Args:
        report: the report.
        path: the file to write; folders are created.

    Returns:
        The path.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_page(Report("Runs", (), ()), Path(folder) / "report.html").read_text()[:15]
        '<!doctype html>'
    """
    _require_report_packages()
    from .page import render_page

    text = render_page(report)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.encode(errors="replace"))  # file names may not be valid text
    return path


def write_report(report: Report, kind: str, path: Path, *, spreadsheet_safe: bool = False) -> list[Path]:
    """Write a report in any format.

    Args:
        report: the report.
        kind: "html" for the page, a key of `TABLE_FORMATS` for the tables, or one of `FIGURE_FORMATS`.
        path: the file to write; for figures, their folder.
        spreadsheet_safe: put an apostrophe before texts in CSV that a spreadsheet would take for formulas.

    Returns:
        The files that were written.

    Raises:
        UserError: if `path` is a folder where a file is needed, or packages are missing.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     (path,) = write_report(Report("Runs", (), ()), "md", Path(folder) / "report.md")
        ...     path.read_text()
        '# Runs\\n\\n'
    """
    if kind in FIGURE_FORMATS:
        return list(write_figures(report, path, kind))
    if path.is_dir():
        raise UserError(f"{path} is a folder: pass a file, such as {path / 'report'}.{kind}")
    if kind == "html":
        return [write_page(report, path)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, format_tables(report, kind, spreadsheet_safe=spreadsheet_safe).encode(errors="replace"))
    return [path]


def format_tables(report: Report, kind: str, *, spreadsheet_safe: bool = False) -> str:
    """Format the tables of a report; Markdown starts with its title.

    Args:
        report: the report.
        kind: a key of `TABLE_FORMATS`.
        spreadsheet_safe: put an apostrophe before texts in CSV that a spreadsheet would take for formulas.

    Example:
        >>> format_tables(Report("Runs", (), ()), "json")
        '[]\\n'
    """
    if kind == "csv":
        return as_csv(report.tables, spreadsheet_safe=spreadsheet_safe)
    title = f"# {escape_markdown(report.title)}\n\n" if kind == "md" else ""
    return title + TABLE_FORMATS[kind](report.tables)


def write_figures(report: Report, folder: Path, kind: str) -> Iterator[Path]:
    """Write one file per figure; panels of one kind, such as confusion matrices, share a file.

    Args:
        report: the report.
        folder: where to write; it is created.
        kind: one of `FIGURE_FORMATS`.

    Yields:
        The files that were written.

    Example:
        >>> import tempfile
        >>> from upcl.research.report.charts import LineChart, Series
        >>> from upcl.research.report.content import Section
        >>> chart = LineChart("accuracy", "Accuracy", "task", "%", (Series("UPCL", [1, 2], [90.0, 80.0]),))
        >>> report = Report("Runs", (), (Section("accuracy", "Accuracy", "", charts=(chart,)),))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [path.name for path in write_figures(report, Path(folder), "svg")]
        ['accuracy.svg']
    """
    _require_report_packages()
    from .matplotlib_backend import save_charts

    folder.mkdir(parents=True, exist_ok=True)
    for section in report.sections:
        for stem, charts in groupby(section.charts, key=_file_stem):
            yield save_charts(list(charts), folder / f"{stem}.{kind}")


def _file_stem(chart: Chart) -> str:
    """The key without the index of a panel: confusion-3 belongs to confusion."""
    name, _, index = chart.key.rpartition("-")
    return name if index.isdigit() else chart.key
