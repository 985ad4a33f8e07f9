"""`upcl report`: a page, tables or figures of stored runs."""

from __future__ import annotations

from pathlib import Path

import click

from .console import report_errors
from .options import FORMAT, PATH, SPREADSHEET_SAFE


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=PATH)
@click.option(
    "-o",
    "--out",
    type=PATH,
    show_default="report.html; tables: printed; figures: figures/",
    help="File to write; for figures, the folder.",
)
@FORMAT
@SPREADSHEET_SAFE
@click.option("--title", default="Runs", show_default=True, help="Title of the page.")
@report_errors()
def report(paths: tuple[Path, ...], out: Path | None, kind: str, spreadsheet_safe: bool, title: str) -> None:
    """Summarise runs as a page, tables or figures.

    The page is one self-contained HTML file. PATH is the folder of a run, or a folder that contains runs. Runs that
    differ only in their seeds are averaged, and differences in protocol are pointed out.

    \b
    Examples:
      upcl report runs -o report.html
      upcl report runs/upcl-digits-seed0 runs/icarl-digits-seed0 --format md
      upcl report runs --format svg -o figures
    """
    from upcl.research.report.compose import report_on_runs
    from upcl.research.report.formats import TABLE_FORMATS
    from upcl.research.report.load import read_runs
    from upcl.research.report.write import FIGURE_FORMATS, format_tables, write_report

    notes: list[str] = []
    content = report_on_runs(read_runs(paths, notes), title, notes, only_tables=kind in TABLE_FORMATS)
    if kind in TABLE_FORMATS and out is None:
        click.echo(format_tables(content, kind, spreadsheet_safe=spreadsheet_safe), nl=False)
        return
    out = out or Path("figures" if kind in FIGURE_FORMATS else "report.html")
    for path in write_report(content, kind, out, spreadsheet_safe=spreadsheet_safe):
        click.echo(f"written to {path}")
