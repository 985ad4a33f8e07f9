"""`upcl grid`: run every combination that a file lists, and show how far the runs are."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .console import RERUN, format_number, report_errors, stdout_console
from .options import GRID_OPTIONS, PATH, parse_settings, with_options

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from upcl.research.backends import ExecutorOptions
    from upcl.research.estimate import CostEstimate
    from upcl.research.grid import GridRun, Status

URGENCY: tuple[Status, ...] = ("running", "failed", "stopped", "queued", "waiting", "done", "done before")
SURROUNDINGS = 8  # lines of the terminal that the table's frame and title take
MAX_NAMES = 3  # runs that an error message lists


@click.command()
@click.argument("file", type=PATH)
@click.option("--out", type=PATH, show_default="runs/NAME of the file", help="Folder of the runs.")
@with_options(GRID_OPTIONS)
@report_errors(interrupted=RERUN)
def grid(file: Path, out: Path | None, dry_run: bool, **given: Any) -> None:
    """Run every combination that a YAML FILE lists.

    Combine methods, data sets, memory sizes, seeds or any other option. Finished runs are skipped and interrupted ones
    resumed: rerun the same command after Ctrl-C or a crash. `same` and `vary` take `method` and the options of `upcl
    train` (`order_seed` for --order-seed); what --set sets is `options`, such as {tau: 0.1}.

    \b
    Example of a file:
      title: two methods, three seeds
      same: {data: digits, tasks: 5, memory: 20}
      vary:
        method: [icarl, upcl]
        seed: [0, 1, 2]

    \b
    Examples:
      upcl grid two-methods.yaml --dry-run
      upcl grid two-methods.yaml --jobs 2
      upcl grid two-methods.yaml --on dask --scheduler tcp://lab1:8786
      upcl grid two-methods.yaml --on slurm --gpus 1 --slurm time=240
      upcl report runs/two-methods
    """
    from upcl.research.grid import prepare, read_grid

    content = read_grid(file)
    options = executor_options(out or Path("runs") / file.stem, content.slurm, **given)
    stdout_console().print(f"{content.title}: {len(content.jobs)} runs. {content.about}".rstrip())
    runs = prepare(content, options.out, options.data_root)
    show_estimates(runs, options) if dry_run else execute(runs, options)
    if report_failures(runs):
        sys.exit(1)


def executor_options(out: Path, defaults: Mapping[str, Any], slurm: Sequence[str], **given: Any) -> ExecutorOptions:
    """Where and how the runs of a grid are executed, from the options of a command.

    Args:
        out: folder of the runs.
        defaults: options of Slurm in the grid file.
        slurm: values of `--slurm`, which override them.
        given: the other options in `GRID_OPTIONS`, but `--dry-run`.

    Example:
        >>> executor_options(Path("runs"), {"time": 60}, ["time=90"], on="slurm", jobs=1).slurm
        {'time': '90'}
    """
    from upcl.research.backends import ExecutorOptions

    on_slurm = given["on"] == "slurm"
    settings = {**(defaults if on_slurm else {}), **parse_settings(slurm, "--slurm")}
    return ExecutorOptions(out, slurm=settings, **given)


def execute(runs: Sequence[GridRun], options: ExecutorOptions) -> None:
    """Execute the runs that are left, with a live table.

    Args:
        runs: the runs of a grid.
        options: where and how to execute them.

    Example:
        >>> from upcl.research.backends import ExecutorOptions
        >>> from upcl.research.grid import prepare, read_grid
        >>> runs = prepare(read_grid(Path("mine.yaml")), Path("runs"), None)  # doctest: +SKIP
        >>> execute(runs, ExecutorOptions(Path("runs"), jobs=2))  # doctest: +SKIP
    """
    from upcl.research.executor import run_grid

    with live_table(stdout_console(), options.jobs) as on_change:
        run_grid(runs, options, on_change)


def show_estimates(runs: Sequence[GridRun], options: ExecutorOptions) -> None:
    """Print what the runs that are left will take.

    Args:
        runs: the runs of a grid.
        options: where and how they would be executed.

    Example:
        >>> from upcl.research.backends import ExecutorOptions
        >>> from upcl.research.grid import prepare, read_grid
        >>> runs = prepare(read_grid(Path("mine.yaml")), Path("runs"), None)  # doctest: +SKIP
        >>> show_estimates(runs, ExecutorOptions(Path("runs")))  # doctest: +SKIP
    """
    from upcl.research.estimate import estimates
    from upcl.training.environment import select_device

    found = list(estimates(runs, options.data_root, select_device(options.device)))
    stdout_console().print(estimate_table(runs, found, options.jobs))


def report_failures(runs: Sequence[GridRun]) -> bool:
    """Print each error once, with the runs that it stopped.

    Args:
        runs: the runs of a grid.

    Returns:
        Whether any run failed.

    Example:
        >>> from upcl.research.config import Request
        >>> from upcl.research.grid import GridRun, Job
        >>> failed = GridRun(Job("seed0", Request()), Path("runs/seed0"), status="failed", error="out of memory")
        >>> report_failures([failed])  # prints "error: seed0: out of memory" on standard error
        True
    """
    failed: dict[str, list[str]] = {}
    for run in runs:
        if run.status == "failed":
            failed.setdefault(run.error, []).append(run.job.name)
    for error, names in failed.items():
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        click.echo(f"error: {', '.join(names[:MAX_NAMES])}{more}: {error}", err=True)
    return bool(failed)


def grid_table(runs: Sequence[GridRun], jobs: int, max_rows: int | None = None) -> Table:
    """A table of the runs: status, progress, time and results.

    Args:
        runs: the runs of a grid.
        jobs: number of parallel runs, for the time left.
        max_rows: if there are more runs, only the most urgent are listed.

    Example:
        >>> from upcl.research.grid import make_grid, prepare
        >>> runs = prepare(make_grid({"vary": {"seed": [0, 1]}}, "example"), Path("runs"), None)
        >>> grid_table(runs, jobs=1).title
        '2 runs: 2 waiting'
    """
    from rich.table import Table

    from upcl.research.grid import seconds_left

    counts = Counter(run.status for run in runs)
    left = seconds_left(runs, max(jobs, counts["running"]))
    table = Table("run", "status", "progress", "time", "A_last\nhead", "A_last\nnme")
    states = ", ".join(f"{counts[status]} {status}" for status in URGENCY if counts[status])
    table.title = f"{len(runs)} runs: {states}"
    if left and counts["waiting"] + counts["queued"] + counts["running"]:
        table.title += f"\nabout {timedelta(seconds=round(left))} left"
    listed = {id(run) for run in sorted(runs, key=lambda run: URGENCY.index(run.status))[:max_rows]}
    for run in runs:
        if id(run) in listed:
            last = run.record.a_last if run.record else None
            figures = [format_number(last.head), format_number(last.nme)] if last else ["", ""]
            time = str(timedelta(seconds=round(run.seconds))) if run.seconds else ""
            table.add_row(run.job.name, run.status, f"{run.share:.0%}", time, *figures)
    return table


@contextmanager
def live_table(console: Console, jobs: int) -> Iterator[Callable[[Sequence[GridRun]], None]]:
    """Show the table of a grid, refreshed in place; without a terminal, one line per change and the table at the end.

    Args:
        console: the console for results.
        jobs: number of parallel runs.

    Yields:
        A callback for the changed runs.

    Example:
        >>> from upcl.research.config import Request
        >>> from upcl.research.grid import GridRun, Job
        >>> run = GridRun(Job("seed0", Request()), Path("runs/seed0"), status="done")
        >>> with live_table(stdout_console(), jobs=1) as on_change:
        ...     on_change([run])
        seed0: done
        ...
    """
    from rich.live import Live

    printed: dict[str, str] = {}
    latest: list[Sequence[GridRun]] = []
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def on_change(runs: Sequence[GridRun]) -> None:
            latest[:] = [runs]
            if console.is_terminal:
                live.update(grid_table(runs, jobs, max(1, console.height - SURROUNDINGS)), refresh=True)
                return
            for run in runs:
                if printed.get(run.job.name) != run.status:
                    printed[run.job.name] = run.status
                    console.print(f"{run.job.name}: {run.status}", markup=False, soft_wrap=True)

        yield on_change
    if latest:
        console.print(grid_table(latest[0], jobs))


def estimate_table(runs: Sequence[GridRun], estimates: Sequence[CostEstimate | None], jobs: int) -> Table:
    """A table of the runs that are left, and what they will take.

    Args:
        runs: the runs of a grid.
        estimates: the cost of each; None for a run that is not waiting.
        jobs: number of parallel runs.

    Example:
        >>> from upcl.research.estimate import CostEstimate
        >>> from upcl.research.grid import make_grid, prepare
        >>> runs = prepare(make_grid({"vary": {"seed": [0, 1]}}, "example"), Path("runs"), None)
        >>> estimate_table(runs, [CostEstimate(seconds=90.0, disk=2_000_000)] * 2, jobs=1).title
        '2 runs left: about 0:03:00, 4 MB'
    """
    from rich.table import Table

    known = [estimate for estimate in estimates if estimate]
    total = timedelta(seconds=round(sum(estimate.seconds for estimate in known)))
    disk = sum(estimate.disk for estimate in known) / 1e6
    table = Table("run", "status", "time", "disk", title=f"{len(known)} runs left: about {total}, {disk:.0f} MB")
    table.caption = f"estimated for one run at a time on all cores; {jobs} in parallel take about as long in total"
    for run, estimate in zip(runs, estimates, strict=True):
        cost = ["", ""]
        if estimate:
            cost = [str(timedelta(seconds=round(estimate.seconds))), f"{estimate.disk / 1e6:.0f} MB"]
        table.add_row(run.job.name, run.status, *cost)
    return table
