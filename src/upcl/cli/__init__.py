"""The command line. Thin: parse, call, print. Torch is imported inside of the commands only."""

from __future__ import annotations

import functools
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from upcl import __version__
from upcl.core.errors import UpclError, UserError, unknown_choice

if TYPE_CHECKING:
    from rich.console import Console

    from upcl.research.executor import ExecutorOptions
    from upcl.research.grid import GridRun
    from upcl.research.paper.experiments import Experiment


def _console(stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, emoji=False)


def report_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Print our own errors as a sentence: exit 2 where the user can mend it, 1 where the run failed."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except UpclError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(2 if isinstance(error, UserError) else 1)
        except BrokenPipeError:  # whoever read our output has seen enough, such as `head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except OSError as error:
            click.echo(f"error: {error.strerror or error}: {error.filename or ''}".rstrip(": "), err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            again = "with --resume " if command.__name__ == "train" else ""
            click.echo(f"stopped; what was saved is whole: the same command {again}goes on with it", err=True)
            sys.exit(130)

    return wrapped


class Commands(click.Group):
    """A group that names the nearest command for an unknown one."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            click.echo(f"error: {unknown_choice('command', args[0], self.list_commands(ctx))}", err=True)
            ctx.exit(2)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.commands)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Class-incremental image classification: classes arrive in tasks, old images are mostly gone.

    \b
    With photos begin with
      upcl learn birds/ --model birds.upcl        sub-folders are the classes; later folders add more
      upcl predict --model birds.upcl photo.jpg   what it shows
    For research begin with
      upcl demo                          three methods on built-in data, a minute
      upcl train upcl --data digits      one run, its folder and its table
      upcl methods                       what can be trained
      upcl show upcl                     what a method's fields mean
    """


@main.command()
@click.option("--seed", default=0, show_default=True, help="Drives initialisation and sampling.")
@click.option("--out", type=click.Path(path_type=Path), help="Keep the runs in this folder, and the page. [runs]")
@report_errors
def demo(seed: int, out: Path | None) -> None:
    """Finetune, iCaRL and UPCL on real handwritten digits: 5 tasks of 2 classes, 20 exemplars in all."""
    from upcl.cli.rendering import progress_of, summary
    from upcl.research.report.content import of_runs
    from upcl.research.report.load import read_runs
    from upcl.research.report.write import can_write, write_page
    from upcl.research.run import run
    from upcl.research.statistics import title_of

    console = _console()
    console.print("Ten handwritten digits arrive two at a time; 20 old images may be kept. Which method remembers?")
    with tempfile.TemporaryDirectory() as temporary:
        folder, records = out or Path(temporary), []
        for name in ("finetune", "icarl", "upcl"):
            with progress_of(console, name) as watch:
                kept = folder / name
                records.append(run(name, "digits", tasks=5, memory="20", seed=seed, out=kept, resume=True, watch=watch))
        page = (out or Path("runs")) / "demo.html"
        if can_write():
            runs = read_runs([folder / name for name in ("finetune", "icarl", "upcl")])
            write_page(of_runs(runs, "Demo: ten handwritten digits, two at a time"), page)
    told = f"digits: 5 tasks, 20 exemplars, seed {seed} (one seed); percent of the test images"
    console.print(summary(records, told))
    right = {title_of(record): record["a_last"]["head"] for record in records}
    console.print(
        f"After the last task UPCL's head names {right['UPCL']:.0f} of 100 unseen images of all ten digits right, "
        f"iCaRL's, with the same 20 exemplars, {right['iCaRL']:.0f}, and Finetune's {right['Finetune']:.0f}."
    )
    if can_write():
        console.print(f"curves, maps and pictures: {page}", soft_wrap=True, markup=False)
    else:
        console.print("a page with curves, maps and pictures needs more packages: README, Install", markup=False)


def _split_set(pairs: tuple[str, ...]) -> dict[str, str]:
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"--set {pair}: say --set key=value")
        options[key.strip()] = value.strip()
    return options


def with_options(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Options that several commands share."""

    def add_all(command: Callable[..., None]) -> Callable[..., None]:
        for add in reversed(options):
            command = add(command)
        return command

    return add_all


_RUN_OPTIONS = (
    click.option("--data", help="Data set: `upcl datasets` lists them. [digits]"),
    click.option("--tasks", help="Number of tasks (5), or the classes of each (4,3,3). [the data set's]"),
    click.option("--memory", help="Exemplars: 2000, 20/class or 50MB. [the data set's]"),
    click.option("--exemplars", help="How exemplars are chosen: herding, random, closest. [herding]"),
    click.option("--seed", type=int, help="Drives initialisation and sampling. [0]"),
    click.option("--order-seed", type=int, help="Drives the class order. [1993]"),
    click.option("--order", help="Class order of your own: names or numbers (cat,dog,owl), or a file, a class a line."),
    click.option("--epochs", type=int, help="Epochs of each task; milestones and warm-ups scale. [the recipe's]"),
    click.option("--backbone", help="Network that makes features. [the data set's]"),
    click.option("--recipe", help="own (the method's), paper (one for all) or quick. [the data set's]"),
    click.option("--protocol", help="honest, or paper (the official code's choices). [honest]"),
    click.option("--select", help="Epoch a task keeps: last, validation, or test (peeks!). [the protocol's]"),
    click.option("--validation", type=float, help="Share of training data held out for --select validation. [0.1]"),
    click.option("--precision", help="What the backbone computes in: float32, or bfloat16 on accelerators. [float32]"),
    click.option("--longtail", help="Long-tailed stream: exp:0.01, step:0.1, exp:0.01:ordered. [none]"),
    click.option(
        "--set", "pairs", multiple=True, metavar="KEY=VALUE", help="A field of the method or recipe.X; repeat."
    ),
    click.option(
        "--config", type=click.Path(path_type=Path), help="YAML file with the same keys; options override it."
    ),
)


def _request(method: str | None, pairs: tuple[str, ...], config: Path | None, given: dict[str, Any]) -> dict[str, Any]:
    """One checked mapping from the config file and the options over it."""
    from dataclasses import asdict

    from upcl.research.config import make_request, parse_sizes, read_order, read_yaml

    values: dict[str, Any] = read_yaml(config) if config else {}
    values.update({key: value for key, value in given.items() if value is not None})
    if method is not None:
        values["method"] = method
    if isinstance(values.get("tasks"), str):
        values["tasks"] = parse_sizes(values["tasks"])
    if isinstance(values.get("order"), str):
        values["order"] = read_order(values["order"])
    if "method" not in values:
        raise UserError("which method? `upcl train upcl`, or a config file with 'method: upcl'")
    request = asdict(make_request(values))
    request["options"] |= _split_set(pairs)
    return request


@main.command()
@click.argument("method", required=False)
@with_options(*_RUN_OPTIONS)
@click.option("--data-root", type=click.Path(path_type=Path), help="Folder with data sets. [$UPCL_DATA, else a cache]")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps.")
@click.option("--out", type=click.Path(path_type=Path), help="The run's folder. [runs/METHOD-DATA-seedS]")
@click.option("--resume", is_flag=True, help="Go on with the run in --out.")
@click.option("--compile", "compiled", is_flag=True, help="Compile the backbone: faster steps after a minute or so.")
@click.option("--profile", is_flag=True, help="Trace a few steps (Chrome format) and print where the time goes.")
@click.option(
    "--track",
    multiple=True,
    metavar="NAME",
    help="Also write to tensorboard, mlflow or wandb, beside the run's folder; repeat.",
)
@click.option("--save-seconds", type=float, default=30, show_default=True, help="Between checkpoints within a task.")
@report_errors
def train(
    method: str | None,
    pairs: tuple[str, ...],
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
    """Learn the tasks of a data set one after the other with METHOD.

    \b
    upcl train upcl --data digits --tasks 5 --memory 20
    upcl train icarl --data synthetic:classes=100 --memory 5/class --set temperature=4
    upcl train upcl --data digits --set margin=none --set recipe.lr=0.05 --out runs/no-margin
    """
    from upcl.cli.rendering import by_task, profile_tables, progress_of
    from upcl.research.executor import exit_with_parent
    from upcl.research.run import run
    from upcl.research.trackers import together, tracked
    from upcl.training.profiler import Profile

    exit_with_parent()
    values = _request(method, pairs, config, given)
    if out is None:
        parts = (values["method"], values["data"], f"seed{values['seed']}")
        out = Path("runs") / "-".join(re.sub(r"[^\w.=,+]+", "_", part) for part in parts)
    console = _console()
    traced = Profile(out) if profile else None
    with progress_of(_console(stderr=True), values["method"]) as bar, tracked(track, out) as tracking:
        record = run(
            **values,
            out=out,
            resume=resume,
            device=device,
            data_root=data_root,
            watch=together(bar, tracking.watch),
            save_seconds=save_seconds,
            compiled=compiled,
            profile=traced,
        )
        tracking.finish(record)
    console.print(by_task(record))
    for reading in ("head", "nme"):
        if record["a_last"][reading] is not None:
            last, average = record["a_last"][reading], record["a_avg"][reading]
            console.print(f"{reading}: A_last {last:.2f}  A_avg {average:.2f}")
    for note in record["notes"]:
        console.print(f"note: {note}", style="bold red", markup=False)
    for table in profile_tables(traced.traces if traced else []):
        console.print(table)
    console.print(f"written to {out}", soft_wrap=True, markup=False)


@main.command()
@report_errors
def methods() -> None:
    """List the methods."""
    from rich.table import Table

    from upcl.methods.registry import METHODS, VARIANTS

    console, table = _console(), Table("name", "method", "what it does", "exemplars")
    for name, method in METHODS.items():
        table.add_row(name, method.title, method.idea, "yes" if method.uses_memory else "no")
    console.print(table)
    console.print(f"rows of the paper's ablation, trained by name too: {', '.join(VARIANTS)}")


@main.command()
@report_errors
def datasets() -> None:
    """List the data sets."""
    from upcl.cli.rendering import dataset_tables
    from upcl.data.io.paths import data_root

    console = _console()
    for table in dataset_tables():
        console.print(table)
    console.print(f"ROOT is --data-root, else $UPCL_DATA, else a cache folder; now: {data_root()}", soft_wrap=True)
    console.print(
        "streams after a slash, options after a colon: upcl train upcl --data cifar100/T10:train=100,test=50\n"
        "T10: ten equal tasks; B50-Inc10: fifty classes first, then ten at a time",
        soft_wrap=True,
    )


@main.group()
def data() -> None:
    """Look after data sets: download one, or check a folder of your own."""


@data.command()
@click.argument("name")
@click.option("--data-root", type=click.Path(path_type=Path), help="Folder with data sets. [$UPCL_DATA, else a cache]")
@report_errors
def get(name: str, data_root: Path | None) -> None:
    """Download the data set NAME from its official address: checked, and resumed where it broke."""
    from upcl.data.io.download import get as download
    from upcl.data.io.paths import data_root as root_of

    click.echo(f"{name} is in {download(name, root_of(data_root))}")


@data.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@report_errors
def check(path: Path, as_json: bool) -> None:
    """Tell the health of a folder of images: classes, sizes, broken files, duplicates, leaks into the test part."""
    from upcl.cli.rendering import health_table
    from upcl.data.io.scan import report_json, scan_folder

    health, _ = scan_folder(path)
    if as_json:
        click.echo(report_json(health))
        return
    console = _console()
    for part in health_table(health):
        console.print(part)


_GRID_OPTIONS = (
    click.option(
        "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Runs at a time; they share the cores."
    ),
    click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps."),
    click.option("--data-root", type=click.Path(path_type=Path), help="Folder with data. [$UPCL_DATA, else a cache]"),
    click.option("--dry-run", is_flag=True, help="Only list the runs, with time and disk estimated by a short probe."),
)


_FORMAT = click.option(
    "--format",
    "kind",
    type=click.Choice(["html", "md", "csv", "latex", "json", "png", "svg", "pdf"]),
    default="html",
    show_default=True,
    help="A page; the tables alone; or the figures, a file each.",
)


def _run_grid(rows: Sequence[GridRun], place: ExecutorOptions, *, dry_run: bool) -> bool:
    """Do what is left of a grid, or tell what it would take; whether nothing failed."""
    from upcl.cli.rendering import estimate_table, live_grid
    from upcl.research.estimate import estimates
    from upcl.research.executor import run_grid
    from upcl.training.environment import select_device

    console = _console()
    if dry_run:
        probed = list(estimates(rows, place.data_root, select_device(place.device)))
        console.print(estimate_table(rows, probed, place.jobs))
    else:
        with live_grid(console, place.jobs) as show:
            run_grid(rows, place, show)
    failed: dict[str, list[str]] = {}
    for row in rows:
        if row.status == "failed":
            failed.setdefault(row.error, []).append(row.job.name)
    for error, names in failed.items():
        click.echo(
            f"error: {', '.join(names[:3])}{f' and {len(names) - 3} more' if names[3:] else ''}: {error}", err=True
        )
    return not failed


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the runs. [runs/NAME of the file]")
@with_options(*_GRID_OPTIONS)
@report_errors
def grid(file: Path, out: Path | None, jobs: int, device: str, data_root: Path | None, dry_run: bool) -> None:
    """Run every combination that FILE (YAML) lists: methods, data sets, memories, seeds.

    Finished runs are skipped and broken ones go on: start the same command again after Ctrl-C or a crash.

    \b
    title: two methods, three seeds
    same: {data: digits, tasks: 5, memory: 20}
    vary:
      method: [icarl, upcl]
      seed: [0, 1, 2]

    `same` and `vary` take `method` and the options of `upcl train` (`order_seed` for --order-seed). What --set says is
    `options`, such as {tau: 0.1}.
    """
    from upcl.research.executor import ExecutorOptions
    from upcl.research.grid import prepare, read_grid

    asked = read_grid(file)
    place = ExecutorOptions(out or Path("runs") / file.stem, jobs, device, data_root)
    _console().print(f"{asked.title}: {len(asked.jobs)} runs. {asked.about}".rstrip(), markup=False)
    if not _run_grid(prepare(asked, place.out, data_root), place, dry_run=dry_run):
        sys.exit(1)


@main.command()
@click.argument("name", required=False)
@click.option("--list", "listed", is_flag=True, help="List the experiments and what each is.")
@click.option("--scale", type=click.Choice(["full", "quick"]), default="quick", show_default=True)
@click.option("--data", default="builtin", show_default=True, help="What quick runs on: builtin, or cifar100.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results"), show_default=True)
@_FORMAT
@with_options(*_GRID_OPTIONS)
@report_errors
def reproduce(
    name: str | None,
    listed: bool,
    scale: Literal["full", "quick"],
    data: str,
    out: Path,
    kind: str,
    jobs: int,
    device: str,
    data_root: Path | None,
    dry_run: bool,
) -> None:
    """Run the paper's experiment NAME and write its page beside the published numbers.

    `full` is the paper's setting; `quick` is the same experiment shrunk. Experiments with one --out share runs, and the
    same command goes on after Ctrl-C or a crash. NAME may be `all`.

    \b
    upcl reproduce --list
    upcl reproduce ablation --jobs 2
    upcl reproduce ablation --data cifar100 --jobs 2 --out results
    """
    from rich.padding import Padding

    from upcl.research.executor import ExecutorOptions
    from upcl.research.paper import experiments

    console = _console()
    if listed or name is None:
        for each in experiments.names():
            console.print(f"[bold]{each}[/bold]")
            console.print(Padding(experiments.about(each), (0, 0, 1, 4)))
        return
    if name not in (*experiments.names(), "all"):
        raise unknown_choice("experiment", name, (*experiments.names(), "all"))
    every = experiments.names() if data == "builtin" else tuple(experiments.with_cifar100())
    asked = [experiments.load(each, scale, data) for each in (every if name == "all" else [name])]
    place = ExecutorOptions(out / "runs", jobs, device, data_root)
    failed = [
        each.name
        for each in asked
        if not _reproduce(each, place, out / f"{each.name}-{each.scale}", kind, dry_run=dry_run)
    ]
    if failed:
        sys.exit(1)


def _reproduce(asked: Experiment, place: ExecutorOptions, stem: Path, kind: str, *, dry_run: bool) -> bool:
    """Run what is left of one experiment and show it; whether nothing failed."""
    from upcl.cli.rendering import as_rich
    from upcl.research.grid import prepare
    from upcl.research.paper.uniformity import measure_all
    from upcl.research.report.content import of_experiment
    from upcl.research.report.load import read_runs
    from upcl.research.report.write import PICTURES, can_write, write

    console, distances = _console(), []
    console.rule(f"{asked.title} ({asked.scale})")
    if asked.prototypes and dry_run:
        told = asked.prototypes
        console.print(
            f"{len(told.numbers)} numbers of prototypes, 4 generators, {told.draws} draws of each, {told.energy_draws} "
            "of minimum energy (the slow one: up to a minute a draw)"
        )
    elif asked.prototypes:
        for found in measure_all(stem.with_name(f"{stem.name}.jsonl"), **vars(asked.prototypes)):
            console.print(f"{found.num} prototypes, {found.generator}: {found.mean:.4f}")
            distances.append(found)
    rows = prepare(asked.grid, place.out, place.data_root) if asked.grid else []
    whole = _run_grid(rows, place, dry_run=dry_run) if rows else True
    done = [row.folder for row in rows if row.record]
    if dry_run or not (done or distances):
        return whole  # nothing to show; what was written earlier stays
    failed = len(rows) - len(done)
    notes = [f"{failed} of {len(rows)} runs are missing: they failed"] if failed else []
    content = of_experiment(asked, read_runs(done), distances, notes)
    for table in content.tables:
        console.print(*as_rich(table, console.width), sep="\n")
    if can_write():
        for path in write(content, kind, stem if kind in PICTURES else stem.with_name(f"{stem.name}.{kind}")):
            console.print(f"written: {path}", soft_wrap=True, markup=False)
    return whole


@main.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="File (for pictures: folder). [report.html]")
@_FORMAT
@click.option("--title", default="Runs", show_default=True)
@report_errors
def report(paths: tuple[Path, ...], out: Path | None, kind: str, title: str) -> None:
    """Show the runs in PATH... (folders of runs, or folders that hold some) on one self-contained page.

    \b
    upcl report runs -o report.html
    upcl report runs/upcl-digits-seed0 runs/icarl-digits-seed0 --format md
    upcl report runs --format svg -o figures
    """
    from upcl.research.report.content import of_runs
    from upcl.research.report.load import read_runs
    from upcl.research.report.tables import FORMATS
    from upcl.research.report.write import PICTURES, table_text, write

    notes: list[str] = []
    content = of_runs(read_runs(paths, notes), title, notes, only_tables=kind in FORMATS)
    if kind in FORMATS and out is None:
        click.echo(table_text(content, kind), nl=False)
        return
    for path in write(content, kind, out or Path("figures" if kind in PICTURES else "report.html")):
        click.echo(f"written: {path}")


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@report_errors
def audit(as_json: bool) -> None:
    """Check the paper's published tables against each other: differences, contradictions, copies, bold print, text."""
    import dataclasses
    import json

    from upcl.cli.rendering import audit_table
    from upcl.research.paper.published import audit as findings_of

    findings = findings_of()
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=1))
    else:
        _console().print(audit_table(findings))


@main.command()
@click.option("--only", multiple=True, help="One group: steps, epochs, parts or growth; repeat for more. [all]")
@click.option("--repeats", type=click.IntRange(1), default=7, show_default=True, help="Rounds, each with every rival.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write the rows to this file too.")
@report_errors
def bench(only: tuple[str, ...], repeats: int, path: Path | None) -> None:
    """Measure speed on this machine: rivals in turn in one run; medians and quartiles of their ratios.

    The limit is the bare forward, backward and update of the same network; the plain way is what the field does: images
    one by one, classes one by one, a wait each step. Keep the machine quiet meanwhile.
    """
    import dataclasses

    from upcl.cli.rendering import bench_table
    from upcl.core.files import write_json
    from upcl.research.bench import GROUPS

    console, rows = _console(), []
    for group in only or GROUPS:
        if group not in GROUPS:
            raise unknown_choice("group of measurements", group, GROUPS)
    with _console(stderr=True).status("measuring") as status:
        for group in only or GROUPS:
            for row in GROUPS[group](repeats):
                rows.append(row)
                status.update(f"measuring {group}: {row.name} done")
    console.print(bench_table(rows, repeats))
    if path:
        write_json(path, [{**dataclasses.asdict(row), "met": row.met} for row in rows])


@main.command()
@click.argument("method")
@report_errors
def show(method: str) -> None:
    """Tell what METHOD is and what its fields mean, with defaults and their sources."""
    from upcl.cli.rendering import describe_fields, recipes_table
    from upcl.methods.registry import find_method

    console, found = _console(), find_method(method)
    console.print(f"[bold]{found.title}[/bold]: {found.idea}")
    console.print(f"paper: {found.paper}")
    needs = {
        "exemplars": found.needs_exemplars,
        "exemplars (works without, but badly)": found.uses_memory and not found.needs_exemplars,
        "a frozen copy of the last network": found.uses_teacher,
        "the number of classes in advance": found().needs_num_classes,
    }
    console.print(f"needs: {', '.join(word for word, needed in needs.items() if needed) or 'nothing of the past'}")
    console.print(f"differs from the papers: {found.differs or 'nothing known'}")
    console.print("fields (--set FIELD=VALUE):")
    for line in describe_fields(found):
        console.print(line)
    console.print(recipes_table(found))


@main.command()
@click.argument("method", required=False)
@with_options(*_RUN_OPTIONS)
@click.option("--kills", default=3, show_default=True, help="How often the run is killed on its way.")
@report_errors
def verify_resume(method: str | None, pairs: tuple[str, ...], config: Path | None, kills: int, **given: Any) -> None:
    """Prove on this machine that a run of METHOD killed with kill -9 and resumed ends like one never stopped."""
    from upcl.research.verify import verify_resume as verify

    console = _console()
    values = _request(method if method or config else "upcl", pairs, config, given)
    with tempfile.TemporaryDirectory() as folder:
        proof = verify(values, Path(folder), kills=kills, say=console.print)
    if proof.differences:
        console.print("the resumed run differs:\n  " + "\n  ".join(proof.differences), style="bold red")
        sys.exit(1)
    console.print(f"killed {proof.kills} times, same record, same weights: {proof.weights_sha256}", soft_wrap=True)


from upcl.cli import models as _models  # noqa: E402, F401 (adds its commands)
