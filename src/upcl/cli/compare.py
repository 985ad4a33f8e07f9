"""`upcl compare`: methods on the same seeds, with intervals, effect sizes and corrected p values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .console import report_errors, stdout_console
from .options import PATH

if TYPE_CHECKING:
    from upcl.research.comparison import Contrast
    from upcl.research.report.content import Report


@click.command()
@click.argument("sides", nargs=-1, required=True, metavar="A B [C]...")
@click.option(
    "--runs", type=PATH, default=Path("runs"), show_default=True, help="Folder in which methods are looked for by name."
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    type=click.Choice(["a_last", "a_avg", "forgetting", "seconds", "memory"]),
    show_default="all",
    help="Compare only this; p values are then corrected for fewer tests. Repeatable.",
)
@click.option(
    "--reading",
    "readings",
    multiple=True,
    type=click.Choice(["head", "nme", "both"]),
    show_default="all",
    help="Only this reading of the models. Repeatable.",
)
@click.option(
    "--equal",
    type=click.Choice(["exemplars", "memory"]),
    default="exemplars",
    show_default=True,
    help="What must be equal: the exemplar budget, or the memory of network and exemplars together.",
)
@click.option("--html", type=PATH, metavar="FILE", help="Also write a page with curves.")
@click.option("--latex", type=PATH, metavar="FILE", help="Also write the tables in LaTeX.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@report_errors()
def compare(
    sides: tuple[str, ...],
    runs: Path,
    metrics: tuple[Any, ...],
    readings: tuple[Any, ...],
    equal: str,
    html: Path | None,
    latex: Path | None,
    as_json: bool,
) -> None:
    """Compare methods on the same seeds, with intervals and tests.

    A, B, ... are folders of runs, or names of methods that were run in --runs. A is compared with each of the others;
    if a folder holds several methods, as that of a grid does, each method that both hold is compared with itself.
    Runs with the same seed and class order form pairs, if all conditions (data, tasks, memory, backbone, ...) are
    equal. For each metric the command prints both means, the mean difference A - B with its 95 % interval, the effect
    size, and p values; an interval needs two pairs, and a rank test six. P values are corrected for the number of tests
    (Holm): decide beforehand what matters and name it by --metric and --reading, so that fewer tests have to be
    corrected for.

    \b
    Examples:
      upcl compare upcl icarl
      upcl compare upcl icarl wa --metric a_last --reading head
      upcl compare runs/tau-0.1 runs/tau-0.2 --html tau.html
      upcl compare runs/grid-1 runs/grid-2
      upcl compare der wa --equal memory --latex table.tex
    """
    from upcl.core.errors import UserError
    from upcl.research.comparison import COMPARED
    from upcl.research.comparison import compare as compare_sides
    from upcl.research.report.contrasts import count_tests, report_on_contrasts
    from upcl.research.report.sides import find_sides
    from upcl.research.report.write import write_report
    from upcl.training.evaluate import READINGS

    notes: list[str] = []
    found = find_sides(sides, runs, notes)
    contrasts = compare_sides(found, metrics or COMPARED, readings or READINGS, equal_total=equal == "memory")
    if not any(contrast.metrics for contrast in contrasts):
        raise UserError("no run of both sides has such a figure: choose another --metric or --reading")
    content = report_on_contrasts(contrasts)
    written = [
        path
        for kind, out in (("html", html), ("latex", latex))
        if out is not None
        for path in write_report(content, kind, out)
    ]
    if as_json:
        click.echo(comparison_json(contrasts, count_tests(contrasts), notes))
        return
    _print_report(content, notes)
    for path in written:
        click.echo(f"written to {path}")


def _print_report(content: Report, notes: Sequence[str]) -> None:
    """The tables, then what can be concluded, then each note once."""
    from dataclasses import replace

    from .reproduce import result_tables

    console = stdout_console()
    for table in content.tables:
        for part in result_tables(replace(table, notes=()), console.width):
            console.print(part)
    for verdict in content.summary:
        console.print(verdict)
    console.print()
    for note in dict.fromkeys([*(note for table in content.tables for note in table.notes), *notes]):
        console.print(note)


def comparison_json(contrasts: Sequence[Contrast], num_tests: int, notes: Sequence[str]) -> str:
    """A comparison as JSON: of each contrast the pairs, and of each metric all figures in full precision.

    Args:
        contrasts: what was compared.
        num_tests: number of tests that p values are corrected for.
        notes: sentences about runs that were left out.

    Example:
        >>> comparison_json([], num_tests=0, notes=[])
        '{"tests": 0, "contrasts": [], "notes": []}'
    """
    import dataclasses
    import json

    content = [
        {
            "first": contrast.first,
            "second": contrast.second,
            "method": contrast.method or None,
            "title": contrast.title,
            "pairs": [
                {"seed": a.seed, "order_seed": a.order_seed, "first": a.config_digest, "second": b.config_digest}
                for a, b in contrast.pairs
            ],
            "metrics": [dataclasses.asdict(metric) for metric in contrast.metrics],
            "verdicts": contrast.verdicts,
            "notes": contrast.notes,
        }
        for contrast in contrasts
    ]
    return json.dumps({"tests": num_tests, "contrasts": content, "notes": list(notes)})
