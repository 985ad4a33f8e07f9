"""`upcl train`, `upcl demo` and `upcl verify-resume`: run methods and print their results."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .console import RERUN, RESUME, report_errors, stderr_console, stdout_console
from .options import DATA_ROOT, DEVICE, FINITE, PATH, RUN_OPTIONS, build_request, with_options
from .progress import run_progress
from .run_tables import profile_tables, summary_table, task_table

if TYPE_CHECKING:
    from upcl.research.config import Request

DEMO_METHODS = ("finetune", "icarl", "upcl")

DEMO_DATA = "digits"


@click.command()
@click.argument("method", required=False)
@with_options(RUN_OPTIONS)
@DATA_ROOT
@DEVICE
@click.option("--out", type=PATH, show_default="runs/METHOD-DATA-SEED", help="Folder of the run.")
@click.option("--resume", is_flag=True, help="Resume the run in --out.")
@click.option(
    "--compile", "compiled", is_flag=True, help="Compile the backbone: faster steps after about a minute of warm-up."
)
@click.option("--profile", is_flag=True, help="Trace a few steps (Chrome format) and print where the time goes.")
@click.option(
    "--track",
    multiple=True,
    metavar="TRACKER",
    help="Also log to tensorboard, mlflow or wandb, in files next to the run's folder. Repeatable.",
)
@click.option(
    "--save-seconds",
    type=FINITE,
    metavar="SECONDS",
    default=30,
    show_default=True,
    help="Time between checkpoints within a task.",
)
@report_errors(interrupted=RESUME)
def train(
    method: str | None,
    settings: tuple[str, ...],
    config: Path | None,
    data_root: Path | None,
    device: str,
    out: Path | None,
    resume: bool,
    compiled: bool,
    profile: bool,
    track: tuple[str, ...],
    save_seconds: float,
    **given: Any,
) -> None:
    """Train METHOD on the tasks of a data set.

    Prints the accuracy after every task and writes the run's folder: record.json, checkpoints and the losses of every
    epoch. Interrupt it at any time; --resume continues with exactly the same result.

    \b
    Examples:
      upcl train upcl --data digits --tasks 5 --memory 20
      upcl train icarl --data synthetic:classes=100 --set temperature=4
      upcl train upcl --set margin=none --set recipe.lr=0.05 --out runs/a
      upcl train upcl --set margin=none --set recipe.lr=0.05 --out runs/a --resume
    """
    from upcl.research.run import run
    from upcl.research.trackers import combine_callbacks, tracking
    from upcl.training.evaluate import READINGS
    from upcl.training.profiler import Profiler
    from upcl.training.world import is_first_process

    request = build_request(method, settings, config, given)
    out = out or default_folder(request)
    if not is_first_process():  # the first one shows and writes everything
        run(request, resume=resume, device=device, data_root=data_root, compiled=compiled)
        return
    profiler = Profiler(out) if profile else None
    with run_progress(stderr_console(), request.method_name) as bar, tracking(track, out) as tracked:
        record = run(
            request,
            out=out,
            resume=resume,
            device=device,
            data_root=data_root,
            on_progress=combine_callbacks(bar, tracked.on_progress),
            save_seconds=save_seconds,
            compiled=compiled,
            profiler=profiler,
        )
        tracked.finish(record)
    console = stdout_console()
    console.print(task_table(record))
    for reading in READINGS:
        last, average = record.a_last[reading], record.a_avg[reading]
        if last is not None and average is not None:
            console.print(f"{reading}: A_last {last:.2f}  A_avg {average:.2f}")
    for note in record.notes:
        console.print(f"note: {note}", style="bold red")
    for table in profile_tables(profiler.traces if profiler else []):
        console.print(table)
    console.print(f"written to {out}", soft_wrap=True)


def default_folder(request: Request) -> Path:
    """The folder of a run that names none.

    Args:
        request: what to run.

    Example:
        >>> from upcl.research.config import Request
        >>> default_folder(Request(method="icarl", data="digits:train=30", seed=2)).as_posix()
        'runs/icarl-digits_train=30-seed2'
    """
    parts = (request.method_name, str(request.data), f"seed{request.seed}")
    return Path("runs") / "-".join(re.sub(r"[^\w.=,+]+", "_", part) for part in parts)


@click.command()
@click.option("--seed", default=0, metavar="N", show_default=True, help="Seed of initialisation and sampling.")
@click.option(
    "--out",
    type=PATH,
    help="Keep the runs in this folder; without it, only the page is kept, in runs.",
)
@report_errors(interrupted=RERUN)
def demo(seed: int, out: Path | None) -> None:
    """Compare three methods on handwritten digits.

    Finetune, iCaRL and UPCL learn ten digits in five tasks of two classes, with 20 exemplars in total; that takes about
    a minute. Prints a table and writes a page with curves, confusion matrices and example images.

    \b
    Examples:
      upcl demo
      upcl demo --seed 1 --out runs/demo
    """
    from upcl.research.config import Request
    from upcl.research.grouping import method_title
    from upcl.research.report.compose import report_on_runs
    from upcl.research.report.load import read_runs
    from upcl.research.report.write import has_report_packages, write_page
    from upcl.research.run import run

    console = stdout_console()
    console.print("Ten handwritten digits arrive two at a time; 20 old images may be kept. Which method remembers?")
    with tempfile.TemporaryDirectory() as temporary:
        folders = {name: (out or Path(temporary)) / name for name in DEMO_METHODS}
        records = []
        for name, folder in folders.items():
            request = Request(method=name, data=DEMO_DATA, tasks=5, memory="20", seed=seed)
            with run_progress(stderr_console(), name) as bar:
                records.append(run(request, out=folder, resume=True, on_progress=bar))
        page = (out or Path("runs")) / "demo.html"
        if has_report_packages():
            runs = read_runs(list(folders.values()))
            write_page(report_on_runs(runs, "Demo: ten handwritten digits, two at a time"), page)
    console.print(summary_table(records, f"digits: 5 tasks, 20 exemplars, seed {seed} (one seed); accuracy in %"))
    accuracy = {method_title(record): record.a_last.head for record in records}
    console.print(
        f"After the last task, UPCL classifies {accuracy['UPCL']:.0f} of 100 test images of all ten digits correctly; "
        f"iCaRL, with the same 20 exemplars, {accuracy['iCaRL']:.0f}; Finetune {accuracy['Finetune']:.0f}."
    )
    if has_report_packages():
        console.print(f"curves, confusion matrices and images: {page}", soft_wrap=True)
    else:
        console.print("for a page with curves and images: pip install 'upcl[report]'")


@click.command()
@click.argument("method", required=False)
@with_options(RUN_OPTIONS)
@click.option(
    "--kills",
    type=click.IntRange(1),
    default=3,
    metavar="N",
    show_default=True,
    help="How many times the run is killed.",
)
@report_errors()
def verify_resume(method: str | None, settings: tuple[str, ...], config: Path | None, kills: int, **given: Any) -> None:
    """Check that a killed run resumes to the same weights.

    Trains METHOD twice on this machine, once without interruption and once in a process that is killed (kill -9) and
    resumed, and compares records and weights bit for bit. METHOD is upcl unless given.

    \b
    Examples:
      upcl verify-resume
      upcl verify-resume icarl --data digits --epochs 20 --kills 5
    """
    from upcl.research.verify import verify_resume as verify

    console = stdout_console()
    request = build_request(method if method or config else "upcl", settings, config, given)
    with tempfile.TemporaryDirectory() as folder:
        check = verify(request, Path(folder), kills=kills, on_event=console.print)
    if check.differences:
        console.print("the resumed run differs:\n  " + "\n  ".join(check.differences), style="bold red")
        sys.exit(1)
    console.print(f"killed {check.kills} times, same record, same weights: {check.weights_sha256}", soft_wrap=True)
