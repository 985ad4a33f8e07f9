"""`upcl report`: a page, tables or figures of stored runs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

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
@click.option(
    "--equal",
    type=click.Choice(["exemplars", "memory"]),
    default="exemplars",
    show_default=True,
    help="Rank methods in the table of memory at equal exemplars, or at equal memory of network and exemplars.",
)
@click.option(
    "--budget",
    metavar="SIZE",
    show_default="the largest total memory of the runs",
    help="Count the exemplars that each method may keep if they and its network take this much (20MB); "
    "with --equal memory, methods that fit in it come first.",
)
@report_errors()
def report(
    paths: tuple[Path, ...],
    out: Path | None,
    kind: str,
    spreadsheet_safe: bool,
    title: str,
    equal: Literal["exemplars", "memory"],
    budget: str | None,
) -> None:
    """Summarise runs as a page, tables or figures.

    The page is one self-contained HTML file. PATH is the folder of a run, or a folder that contains runs. Runs that
    differ only in their seeds are averaged, and differences in protocol are pointed out.

    \b
    Examples:
      upcl report runs -o report.html
      upcl report runs/upcl-digits-seed0 runs/icarl-digits-seed0 --format md
      upcl report runs --format svg -o figures
      upcl report runs --format md --equal memory --budget 20MB
    """
    from upcl.core.budget import parse_bytes
    from upcl.research.report.compose import report_on_runs
    from upcl.research.report.formats import TABLE_FORMATS
    from upcl.research.report.load import read_runs
    from upcl.research.report.write import FIGURE_FORMATS, format_tables, write_report

    notes: list[str] = []
    size = parse_bytes(budget, "--budget") if budget else None
    runs = read_runs(paths, notes)
    content = report_on_runs(runs, title, notes, only_tables=kind in TABLE_FORMATS, equal=equal, budget=size)
    if kind in TABLE_FORMATS and out is None:
        click.echo(format_tables(content, kind, spreadsheet_safe=spreadsheet_safe), nl=False)
        return
    out = out or Path("figures" if kind in FIGURE_FORMATS else "report.html")
    for path in write_report(content, kind, out, spreadsheet_safe=spreadsheet_safe):
        click.echo(f"written to {path}")
