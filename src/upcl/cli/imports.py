"""`upcl import`: configuration files of other programs as commands of this one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upcl.core.errors import UserError

from .console import RERUN, report_errors, stdout_console
from .grid import execute, report_failures
from .group import SuggestingGroup
from .options import DATA_ROOT, DEVICE, JOBS, PATH

if TYPE_CHECKING:
    from rich.table import Table

    from upcl.research.migration import Translation
    from upcl.research.migration.draft import Verdict

MAX_VALUE = 24  # characters of a value in the table


@click.group("import", cls=SuggestingGroup)
def import_() -> None:
    """Turn configuration files of other programs into commands.

    \b
    Examples:
      upcl import pycil exps/icarl.json
      upcl import pycil exps/icarl.json --run --epochs 2
    """


@import_.command()
@click.argument("file", type=PATH)
@click.option(
    "--from",
    "program",
    type=click.Choice(["pycil", "pilot", "upcl"]),
    show_default="recognised by its keys",
    help="Program that the file is for: PyCIL, PILOT, or the UPCL paper's own code.",
)
@click.option("--data", metavar="NAME", help="Use this data set instead of the file's.")
@click.option(
    "--epochs", type=click.IntRange(1), metavar="N", help="Train this many epochs per task instead of the file's."
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--run", "is_run", is_flag=True, help="Also run the commands, as `upcl grid` does.")
@click.option("--out", type=PATH, show_default="runs/NAME of the file", help="Folder of the runs.")
@JOBS
@DEVICE
@DATA_ROOT
@report_errors(interrupted=RERUN)
def pycil(
    file: Path,
    program: str | None,
    data: str | None,
    epochs: int | None,
    as_json: bool,
    is_run: bool,
    out: Path | None,
    jobs: int,
    device: str,
    data_root: Path | None,
) -> None:
    """Translate a configuration file of PyCIL, PILOT or UPCL's code.

    Prints an `upcl train` command for each seed of the JSON FILE, and what becomes of every key: an option here,
    nothing because there is no equivalent, or nothing because that program ignores it too. Values that the program's
    modules set themselves, whatever the file says, are part of the commands.

    The exit code is 2 if the model is not here; the nearest method is then named.

    \b
    Examples:
      upcl import pycil exps/icarl.json
      upcl import pycil exps/wa.json --from upcl --json
      upcl import pycil exps/icarl.json --run --data digits --epochs 2
    """
    from upcl.research.migration import read_config, translate

    if as_json and is_run:
        raise UserError("--json prints only: leave out --run, or --json")
    translation = translate(read_config(file), program, data=data, epochs=epochs)
    if as_json:
        click.echo(json.dumps(translation.to_json(), indent=1))
    else:
        console = stdout_console()
        for part in translation_lines(translation):
            console.print(part, soft_wrap=isinstance(part, str))
    if translation.obstacle:
        raise UserError(translation.obstacle)
    if is_run:
        chosen = translation.device if device == "auto" else device
        _run(translation, out or Path("runs") / file.stem, jobs=jobs, device=chosen, data_root=data_root)


def _run(translation: Translation, out: Path, **given: Any) -> None:
    """Execute the requests as a grid: finished runs are skipped, interrupted ones are resumed."""
    from upcl.research.backends import ExecutorOptions
    from upcl.research.grid import Grid, Job, prepare

    jobs = [Job(f"order{each.order_seed}-seed{each.seed}", each) for each in translation.requests]
    options = ExecutorOptions(out, **given)
    runs = prepare(Grid(translation.model.title, "", tuple(jobs)), out, options.data_root)
    execute(runs, options)
    if report_failures(runs):
        sys.exit(1)


def translation_lines(translation: Translation) -> Iterator[Table | str]:
    """The commands, the tables of keys, and notes.

    Args:
        translation: what a file becomes.

    Example:
        >>> from upcl.research.migration import translate
        >>> lines = translation_lines(translate({"model_name": "icarl", "convnet_type": "resnet32"}))
        >>> next(lines)
        "iCaRL, for PyCIL (its models have 'icarl'; --from overrides)"
    """
    reason = f" ({translation.reason}; --from overrides)" if translation.reason else ""
    yield f"{translation.model.title}, for {translation.program.title}{reason}"
    yield "" if translation.equivalent else f"\nnot the same, but nearest here is {translation.method}:"
    yield from translation.commands
    yield ""
    yield verdict_table("key", translation.verdicts)
    if translation.hard_coded:
        yield verdict_table(f"set by {translation.model.file}", translation.hard_coded)
    yield from (f"note: {note}" for note in translation.notes)


def verdict_table(title: str, verdicts: Sequence[Verdict]) -> Table:
    """A table of verdicts.

    Args:
        title: title of the first column.
        verdicts: the rows.

    Example:
        >>> from upcl.research.migration.draft import Verdict
        >>> verdict_table("key", [Verdict("prefix", "reproduce", "no equivalent", "names the log file")]).row_count
        1
    """
    from rich.table import Table

    table = Table()
    for column in (title, "value", "verdict", "here"):
        table.add_column(column, overflow="fold")
    for verdict in verdicts:
        value = json.dumps(verdict.value, ensure_ascii=False)
        short = value if len(value) <= MAX_VALUE else f"{value[: MAX_VALUE - 3]}..."
        table.add_row(verdict.key, short, verdict.kind, verdict.text)
    return table
