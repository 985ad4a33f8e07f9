"""`upcl bench`: measure the speed of training on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upcl.core.errors import unknown_choice

from .console import report_errors, stderr_console, stdout_console
from .options import PATH

if TYPE_CHECKING:
    from rich.table import Table

    from upcl.core.timing import Measurement


@click.command()
@click.option(
    "--only",
    multiple=True,
    metavar="GROUP",
    show_default="all",
    help="steps, epochs, parts, growth, budget, processes or photos. Repeatable.",
)
@click.option(
    "--repeats",
    type=click.IntRange(1),
    metavar="N",
    default=7,
    show_default=True,
    help="Rounds; each measures every candidate.",
)
@click.option("--json", "path", type=PATH, help="Also write the rows to this file.")
@report_errors()
def bench(only: tuple[str, ...], repeats: int, path: Path | None) -> None:
    """Measure the speed of training on this machine.

    Training is compared with its limit, the bare forward pass, backward pass and update of the same network, and with
    a plain implementation: one image and one class at a time, with a synchronisation every step. Candidates are
    measured in turn; the table lists medians and quartiles of their ratios. Keep the machine idle meanwhile.
    Learning photos is compared with decoding them and the forward pass alone.

    \b
    Examples:
      upcl bench
      upcl bench --only steps --repeats 3 --json bench.json
    """
    import dataclasses

    from upcl.core.files import write_json
    from upcl.model.bench import measure_photos
    from upcl.research.bench import GROUPS

    rows, groups = [], {**GROUPS, "photos": measure_photos}
    for group in only or groups:
        if group not in groups:
            raise unknown_choice("group of measurements", group, groups)
    with stderr_console().status("measuring") as status:
        for group in only or groups:
            for row in groups[group](repeats):
                rows.append(row)
                status.update(f"measuring {group}: {row.name} done")
    stdout_console().print(bench_table(rows, repeats))
    if path:
        write_json(path, [{**dataclasses.asdict(row), "met": row.met} for row in rows])


def bench_table(rows: Sequence[Measurement], repeats: int) -> Table:
    """A table of measurements with their quartiles, and whether targets are met.

    Args:
        rows: the measurements.
        repeats: the number of rounds.

    Example:
        >>> from upcl.core.timing import Measurement
        >>> row = Measurement("steps", "a step", "ours 2 s", "bare 1 s", 2.0, 1.9, 2.1, "x", "at most", target=1.25)
        >>> list(bench_table([row], repeats=3).columns[2].cells)
        ['2.00x (1.90 to 2.10)']
    """
    import torch
    from rich.table import Table
    from rich.text import Text

    threads = torch.get_num_threads()
    title = f"{repeats} rounds, {threads} threads, torch {torch.__version__}: median (quartiles)"
    table = Table("what", "measured", "figure", "target", "", title=title)
    for before, row in zip([None, *rows], rows, strict=False):
        if before and before.group != row.group:
            table.add_section()
        spread = f" ({row.low:.2f} to {row.high:.2f})" if row.low != row.high else ""
        verdict = {True: Text("met", "green"), False: Text("missed", "bold red"), None: Text("")}[row.met]
        target = f"{row.rule} {row.target:g}" if row.target is not None else ""
        measured = " / ".join(part for part in (row.ours, row.other) if part)
        table.add_row(row.name, measured, f"{row.value:.2f}{row.unit}{spread}", target, verdict)
    return table
