"""`upcl reproduce` and `upcl audit`: the paper's experiments, and checks of its published tables."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from upcl.core.errors import unknown_choice

from .console import RERUN, report_errors, stdout_console
from .grid import execute, executor_options, report_failures, show_estimates
from .options import FORMAT, GRID_OPTIONS, PATH, with_options

if TYPE_CHECKING:
    from rich.table import Table

    from upcl.research.backends import ExecutorOptions
    from upcl.research.paper.experiments import Experiment
    from upcl.research.paper.published import Finding
    from upcl.research.paper.reproduce import Reproduction
    from upcl.research.report.tables import Table as ResultTable

MIN_NAME_WIDTH = 8  # characters for the first column of a table


@click.command()
@click.argument("name", required=False)
@click.option("--list", "listed", is_flag=True, help="List the experiments and what each shows.")
@click.option(
    "--scale",
    type=click.Choice(["full", "cpu", "quick"]),
    default="quick",
    show_default=True,
    help="full: the paper's setting; cpu: all images of CIFAR-100 with a network and a recipe for CPUs; quick: a "
    "reduced size. --dry-run estimates the time.",
)
@click.option(
    "--data", default="builtin", show_default=True, help="Data for --scale quick: builtin (digits) or cifar100."
)
@click.option(
    "--out",
    type=PATH,
    default=Path("results"),
    show_default=True,
    help="Folder for runs and pages; experiments with the same folder share runs.",
)
@FORMAT
@with_options(GRID_OPTIONS)
@report_errors(interrupted=RERUN)
def reproduce(
    name: str | None,
    listed: bool,
    scale: Literal["full", "cpu", "quick"],
    data: str,
    out: Path,
    kind: str,
    dry_run: bool,
    **given: Any,
) -> None:
    """Run the paper's experiments; compare with its numbers.

    NAME is one of the experiments that --list describes, or `all`. Finished runs are skipped: rerun the same command
    after Ctrl-C or a crash.

    \b
    Examples:
      upcl reproduce --list
      upcl reproduce ablation --dry-run
      upcl reproduce ablation --data cifar100 --jobs 2
      upcl reproduce ablation --scale cpu --jobs 2
    """
    from rich.padding import Padding

    from upcl.research.paper import experiments
    from upcl.research.paper.reproduce import runs_folder

    if listed or name is None:
        console = stdout_console()
        for each in experiments.names():
            console.print(each, style="bold")
            console.print(Padding(experiments.description(each), (0, 0, 1, 4)))
        return
    if name not in (*experiments.names(), "all"):
        raise unknown_choice("experiment", name, (*experiments.names(), "all"))
    wanted = experiments.names_with(scale, data) if name == "all" else [name]
    chosen = [experiments.load(each, scale, data) for each in wanted]
    options = executor_options(runs_folder(out), {}, **given)
    failed = [each.name for each in chosen if _reproduce(each, out, options, kind, dry_run=dry_run)]
    if failed:
        sys.exit(1)


def _reproduce(experiment: Experiment, out: Path, options: ExecutorOptions, kind: str, *, dry_run: bool) -> bool:
    """Run what is left of one experiment, then print and write its tables; whether a run failed."""
    from upcl.research.paper.reproduce import Reproduction
    from upcl.research.report.write import has_report_packages, write_report

    console = stdout_console()
    console.rule(f"{experiment.title} ({experiment.scale})")
    reproduction = Reproduction.prepare(experiment, out, options.data_root)
    if dry_run:
        _show_plan(reproduction, options)
        return report_failures(reproduction.runs)
    reproduction.measure()
    if reproduction.runs:
        execute(reproduction.runs, options)
    failed = report_failures(reproduction.runs)
    report = reproduction.report()
    if report is None:
        return failed  # nothing to show; earlier results stay
    for table in report.tables:
        console.print(*result_tables(table, console.width), sep="\n")
    if has_report_packages():
        for path in write_report(report, kind, reproduction.path(kind)):
            console.print(f"written to {path}", soft_wrap=True)
    return failed


def _show_plan(reproduction: Reproduction, options: ExecutorOptions) -> None:
    if plan := reproduction.experiment.uniformity:
        stdout_console().print(
            f"{len(plan.counts)} numbers of prototypes, 4 generators, {plan.draws} draws each, {plan.energy_draws} of "
            "minimum energy (the slow one: up to a minute per draw)"
        )
    if reproduction.runs:
        show_estimates(reproduction.runs, options)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@report_errors()
def audit(as_json: bool) -> None:
    """Check the paper's published tables against each other.

    Lists differences that do not add up, contradictions between tables, copied numbers, misplaced bold print and
    claims in the text that the tables do not support.

    \b
    Examples:
      upcl audit
      upcl audit --json
    """
    import dataclasses
    import json

    from upcl.research.paper.published import audit as audit_tables

    findings = audit_tables()
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=1))
    else:
        stdout_console().print(audit_table(findings))


def audit_table(findings: Sequence[Finding]) -> Table:
    """A table of what is inconsistent in the published tables.

    Args:
        findings: the findings of the audit.

    Example:
        >>> from upcl.research.paper.published import Finding
        >>> findings = [Finding("protocol", place, "one seed", (place,)) for place in ("main", "memory")]
        >>> audit_table(findings).title
        '2 findings in the published tables: protocol 2'
    """
    from rich.table import Table

    counts = ", ".join(f"{kind} {num}" for kind, num in Counter(finding.kind for finding in findings).items())
    table = Table("kind", "where", "what", title=f"{len(findings)} findings in the published tables: {counts}")
    for finding in findings:
        table.add_row(finding.kind, finding.where, finding.what)
    return table


def result_tables(results: ResultTable, width: int) -> Iterator[Table | str]:
    """A table of results, then its notes. Columns that do not fit continue in further tables with the same rows.

    Args:
        results: the table.
        width: characters per line.

    Example:
        >>> from upcl.research.report.tables import Cell
        >>> from upcl.research.report.tables import Table as ResultTable
        >>> results = ResultTable("Digits", ("method", "A_last"), ((Cell("UPCL"), Cell("56.1")),), notes=("one seed",))
        >>> list(result_tables(results, width=80))[1:]
        ['one seed']
    """
    from rich.table import Table

    cells = [
        [f"{row[place].text}\n{row[place].interval}".rstrip("\n") for row in results.rows]
        for place in range(len(results.columns))
    ]
    sizes = [
        max(map(len, [*title.split(), *"\n".join(column).splitlines()]))
        for title, column in zip(results.columns, cells, strict=True)
    ]
    left = width - 4 - sum(size + 3 for size in sizes[1:])
    sizes[0] = min(sizes[0], left if left >= MIN_NAME_WIDTH else width // 3)
    for band in _bands(sizes, width):
        table = Table(title=results.title)
        for place in band:
            table.add_column(results.columns[place], justify="right" if place else "left", width=sizes[place])
        for row in zip(*(cells[place] for place in band), strict=True):
            table.add_row(*row)
        yield table
    yield from results.notes


def _bands(sizes: Sequence[int], width: int) -> list[list[int]]:
    """Columns per table, each with the first column."""
    bands = [[0]]
    for place in range(1, len(sizes)):
        if len(bands[-1]) > 1 and 1 + sum(sizes[k] + 3 for k in (*bands[-1], place)) > width:
            bands.append([0])
        bands[-1].append(place)
    return bands
