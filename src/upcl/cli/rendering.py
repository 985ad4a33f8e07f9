"""Tables and progress bars for the terminal."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from upcl.core.options import fields_of
from upcl.core.recipes import Recipe
from upcl.data import DATASETS
from upcl.data.io.scan import FolderReport, printable
from upcl.methods.registry import MethodClass, find_method, method_options
from upcl.model.bundle import Bundle
from upcl.model.file import FORMAT, VERSION
from upcl.research.bench.timing import Row
from upcl.research.estimate import CostEstimate
from upcl.research.grid import GridRun, Status, seconds_left
from upcl.research.paper.published import Finding
from upcl.research.record import Record
from upcl.research.report.tables import Table as Results
from upcl.research.run import ProgressCallback, RunProgress
from upcl.research.statistics import title_of
from upcl.training.engine import EpochResult
from upcl.training.evaluate import READINGS
from upcl.training.profiler import Trace

SHOWN = 20  # files of each kind of trouble
NARROWEST = 8  # characters for the names of lines


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def both(figure: dict[str, float | None]) -> list[str]:
    """Cells of a figure's two readings."""
    return [number(figure[name]) for name in READINGS]


def summary(records: Sequence[Record], title: str) -> Table:
    """One row for each run: both readings of the model side by side."""
    table = Table(title=title, caption="head: the classifier; nme: nearest mean of exemplars ('-': keeps none)")
    table.add_column("method")
    for figure in ("A_last", "A_avg", "forgets"):
        for reading in READINGS:
            table.add_column(f"{figure}\n{reading}", justify="right")
    table.add_column("seconds", justify="right")
    for record in records:
        figures = [cell for key in ("a_last", "a_avg", "forgetting") for cell in both(record[key])]
        table.add_row(title_of(record), *figures, f"{sum(record['seconds']):.0f}")
    return table


def by_task(record: Record) -> Table:
    """One row for each task of a run."""
    caption = "head, nme: percent right of all classes seen (old, new: of these); IR: imbalance ratio; kept: exemplars"
    table = Table(title=f"{title_of(record)} on {record['data']}, seed {record['seed']}", caption=caption)
    columns = ("task", "classes", "head", "old", "new", "nme", "IR", "kept", "seconds", "peak MB")
    for column in columns:
        table.add_column(column, justify="right")
    nme = record["top1"]["nme"] or [None] * len(record["seconds"])
    for t, size in enumerate(record["task_sizes"][: len(record["seconds"])]):
        ratio = record["imbalance_ratio"][t]
        table.add_row(
            str(t + 1),
            str(size),
            number(record["top1"]["head"][t]),
            number(record["old"]["head"][t]),
            number(record["new"]["head"][t]),
            number(nme[t]),
            "no old" if ratio is None else f"{ratio:.1f}",
            str(record["exemplars"][t]),
            f"{record['seconds'][t]:.1f}",
            number(record["peak_memory_mb"][t]),
        )
    return table


def health_table(health: FolderReport) -> Iterator[Table | str]:
    """The health of a folder: a row for each class, then each kind of trouble with its files."""
    table = Table("class", "train", "test", title=f"{len(health.classes)} classes, imbalance {health.imbalance:.1f}")
    for label, counts in health.classes.items():
        table.add_row(escape(label), str(counts["train"]), str(counts["test"]))
    yield table
    yield from (escape(f"note: {remark}") for remark in health.remarks)
    sizes = ", ".join(f"{size} ({num})" for size, num in list(health.sizes.items())[:10])
    yield f"sizes: {sizes}; grey: {health.grey}"
    troubles = {
        "cannot be read": [f"{path}: {reason}" for path, reason in health.broken],
        "folders without images": health.empty,
        "the same image twice in a class": [" = ".join(group) for group in health.duplicates],
        "the same image in two classes": [" = ".join(group) for group in health.two_classes],
        "the same image in train and test": [" = ".join(group) for group in health.leaks],
    }
    for title, lines in troubles.items():
        yield f"{title}: {len(lines) or 'none'}"
        yield from (escape(f"  {line}") for line in lines[:SHOWN])
        if len(lines) > SHOWN:
            yield f"  and {len(lines) - SHOWN} more (--json tells all)"


def _type_name(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " | ".join(map(str, get_args(hint)))
    base = get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
    return getattr(base, "__name__", str(base))


def describe_fields(cls: type[Any]) -> Iterator[Padding]:
    """The fields of a dataclass, each with its values, default, meaning and where the default comes from."""
    hints = get_type_hints(cls, include_extras=True)
    for name, field in fields_of(cls).items():
        about = field.metadata
        yield Padding(f"[bold]{name}[/bold] = {field.default}   ({_type_name(hints[name])})", (0, 0, 0, 2))
        yield Padding(about.get("meaning", ""), (0, 0, 0, 6))
        if about.get("source"):
            yield Padding(f"[dim]source: {about['source']}[/dim]", (0, 0, 0, 6))


def as_rich(results: Results, width: int) -> Iterator[Table | str]:
    """A table of results, then its notes. Columns that do not fit into the width follow in tables of the same lines."""
    cells = [
        [escape(f"{row[place].text}\n{row[place].small}".rstrip("\n")) for row in results.rows]
        for place in range(len(results.columns))
    ]
    sizes = [
        max(map(len, [*title.split(), *"\n".join(column).splitlines()]))
        for title, column in zip(results.columns, cells, strict=True)
    ]
    left = width - 4 - sum(size + 3 for size in sizes[1:])
    sizes[0] = min(sizes[0], left if left >= NARROWEST else width // 3)
    bands = [[0]]
    for place in range(1, len(sizes)):
        if len(bands[-1]) > 1 and 1 + sum(sizes[k] + 3 for k in (*bands[-1], place)) > width:
            bands.append([0])
        bands[-1].append(place)
    for band in bands:
        table = Table(title=escape(results.title))
        for place in band:
            table.add_column(results.columns[place], justify="right" if place else "left", width=sizes[place])
        for row in zip(*(cells[place] for place in band), strict=True):
            table.add_row(*row)
        yield table
    yield from (escape(note) for note in results.notes)


URGENCY: tuple[Status, ...] = ("running", "failed", "stopped", "waiting", "done", "done before")


def grid_table(rows: Sequence[GridRun], jobs: int, most: int | None = None) -> Table:
    """A line for each run: what it does, what came out, when all will be done. Of too many, those that matter now."""
    counts = Counter(row.status for row in rows)
    left = seconds_left(rows, jobs)
    table = Table("run", "status", "share", "time", "A_last\nhead", "A_last\nnme")
    table.title = f"{len(rows)} runs: {', '.join(f'{counts[status]} {status}' for status in URGENCY if counts[status])}"
    if left and counts["waiting"] + counts["running"]:
        table.title += f"\nabout {timedelta(seconds=round(left))} left"
    now = {id(row) for row in sorted(rows, key=lambda row: URGENCY.index(row.status))[:most]}
    for row in rows:
        if id(row) in now:
            figures = both(row.record["a_last"]) if row.record else ["", ""]
            time = str(timedelta(seconds=round(row.seconds))) if row.seconds else ""
            table.add_row(escape(row.job.name), row.status, f"{row.share:.0%}", time, *figures)
    return table


@contextmanager
def live_grid(console: Console, jobs: int) -> Iterator[Callable[[Sequence[GridRun]], None]]:
    """The table, renewed in place; where there is no terminal, a line for each change and the table at the end."""
    last: dict[str, str] = {}
    shown: list[Sequence[GridRun]] = []
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def show(rows: Sequence[GridRun]) -> None:
            shown[:] = [rows]
            if console.is_terminal:
                live.update(grid_table(rows, jobs, max(1, console.height - 8)), refresh=True)
                return
            for row in rows:
                if last.get(row.job.name) != row.status:
                    last[row.job.name] = row.status
                    console.print(f"{row.job.name}: {row.status}", markup=False, soft_wrap=True)

        yield show
    if shown:
        console.print(grid_table(shown[0], jobs))


def estimate_table(rows: Sequence[GridRun], estimates: Sequence[CostEstimate | None], jobs: int) -> Table:
    """What is left to run, and what it would take."""
    known = [estimate for estimate in estimates if estimate]
    total = timedelta(seconds=round(sum(e.seconds for e in known)))
    disk = sum(e.disk for e in known) / 1e6
    table = Table("run", "status", "time", "disk", title=f"{len(known)} runs left: about {total}, {disk:.0f} MB")
    table.caption = (
        f"estimated with all cores for one run at a time; {jobs} at a time take about as long on one machine"
    )
    for row, estimate in zip(rows, estimates, strict=True):
        told = (
            ["", ""]
            if estimate is None
            else [str(timedelta(seconds=round(estimate.seconds))), f"{estimate.disk / 1e6:.0f} MB"]
        )
        table.add_row(escape(row.job.name), row.status, *told)
    return table


def audit_table(findings: Sequence[Finding]) -> Table:
    """What in the paper's tables does not fit."""
    counts = ", ".join(f"{kind} {num}" for kind, num in Counter(finding.kind for finding in findings).items())
    table = Table("kind", "where", "what", title=f"{len(findings)} findings in the published tables: {counts}")
    for finding in findings:
        table.add_row(finding.kind, finding.where, finding.what)
    return table


def bench_table(rows: Sequence[Row], repeats: int) -> Table:
    """Figures with their quartiles, and whether targets are met."""
    threads = torch.get_num_threads()
    title = f"{repeats} rounds, {threads} threads, torch {torch.__version__}: median (quartiles)"
    table = Table("what", "measured", "figure", "target", "", title=title)
    for before, row in zip([None, *rows], rows, strict=False):
        if before and before.group != row.group:
            table.add_section()
        spread = f" ({row.low:.2f} to {row.high:.2f})" if row.low != row.high else ""
        said = {True: "[green]met[/green]", False: "[bold red]missed[/bold red]", None: ""}[row.met]
        target = f"{row.rule} {row.target:g}" if row.target is not None else ""
        measured = " / ".join(part for part in (row.ours, row.other) if part)
        table.add_row(row.name, measured, f"{row.figure:.2f}{row.unit}{spread}", target, said)
    return table


def profile_tables(traces: Sequence[Trace]) -> Iterator[Table]:
    """Where the time of a step goes, by the parts of the loop and by operation."""
    for trace in traces:
        whole = sum(trace.parts.values())
        table = Table("part", "ms a step", "share", title=f"task {trace.task}: {trace.steps} steps, {trace.path.name}")
        for name, milliseconds in trace.parts.items():
            table.add_row(name, f"{milliseconds:.1f}", f"{milliseconds / whole:.0%}")
        table.add_section()
        for name, milliseconds in trace.operations.items():
            table.add_row(escape(name), f"{milliseconds:.1f}", "")
        yield table


def dataset_tables() -> Iterator[Table]:
    """What each data set is, where it comes from, and the options of those that have some."""
    what = Table("name", "what it is", "classes", "train + test images", "size", "licence")
    where = Table("name", "looked for in", "how to get it")
    for name, source in DATASETS.items():
        what.add_row(name, source.about, source.classes, source.images, source.size, source.licence)
        where.add_row(name, source.where, source.how)
    yield what
    yield where
    options = Table("options of", "option", "default", "meaning")
    options.columns[0].max_width = 30
    groups: dict[type[Any], list[str]] = {}
    for name, source in DATASETS.items():
        if source.options:
            groups.setdefault(source.options, []).append(name)
    for cls, names in groups.items():
        for row, field in enumerate(fields_of(cls).values()):
            head = ", ".join(names) if row == 0 else ""
            options.add_row(head, field.name, str(field.default), field.metadata["meaning"])
        options.add_section()
    yield options


def recipes_table(method: MethodClass) -> Table:
    """A method's own recipe, for the first task and the later ones."""
    table = Table(title="own recipe: --set recipe.FIELD=VALUE, or first.FIELD, later.FIELD")
    for column in ("field", "first task", "later tasks", "meaning"):
        table.add_column(column)
    for field in dataclasses.fields(Recipe):
        first, later = (str(getattr(recipe, field.name)) for recipe in (method.recipes.first, method.recipes.later))
        table.add_row(field.name, first, later, field.metadata["meaning"])
    return table


def step_table(bundle: Bundle) -> Table:
    """Accuracy of each class after the newest step of a model, and before it."""
    step = bundle.history[-1]
    before = bundle.history[-2].by_class if len(bundle.history) > 1 else {}
    columns = ("class", "right on held-out images", *(["before"] if before else []), "")
    table = Table(*columns, title=f"{len(step.by_class)} classes")
    for name, value in step.by_class.items():
        what = "new" if name in step.added else "more images" if name in step.extra else ""
        cells = [_share(value), *([_share(before.get(name))] if before else []), what]
        table.add_row(escape(printable(name)), *cells)
    old = [name for name in step.by_class if name in before]
    if old:
        table.add_section()
        table.add_row("classes known before", _share(step.right_on(old)), _share(bundle.history[-2].right_on(old)), "")
        table.add_row("new classes", _share(step.right_on(step.added)), "-", "")
    return table


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} %"


def history_table(bundle: Bundle) -> Table:
    """A line for each step of a model: how much of all and of the first step's classes was right."""
    table = Table(title="history", caption="first: right of the first step's classes")
    table.add_column("step")
    table.add_column("when", no_wrap=True)
    table.add_column("what", overflow="fold")
    for title in ("images", "right", "first", "time"):
        table.add_column(title, justify="right")
    table.add_column("kept")
    for number, step in enumerate(bundle.history):
        right = max((value for value in step.accuracy.values() if value is not None), default=None)
        what = [f"new: {', '.join(step.added)}"] if step.added else []
        what += [f"more of: {', '.join(step.extra)}"] if step.extra else []
        table.add_row(
            str(number),
            step.when[:10],
            escape(printable("; ".join(what) or step.note)),
            str(step.images),
            _share(right),
            _share(step.right_on(bundle.history[0].added)),
            f"{step.seconds:.0f} s",
            "yes" if number in bundle.states else "no",
        )
    return table


def model_tables(bundle: Bundle, path: Path) -> Iterator[Table | str]:
    """All that a model's file tells."""
    spec, state = bundle.spec, bundle.state
    method = find_method(spec.method)
    usual = method_options(spec.method, method, {})
    changed = [f"{name}={value}" for name, value in spec.options.items() if value != usual.get(name)]
    names = [name for name in state.classes if name is not None]
    yield escape(f"{path}: {len(names)} classes, {len(bundle.history)} steps, {path.stat().st_size / 1e6:.1f} MB")
    told = {
        "method": ", ".join([method.title, *changed]),
        "network": f"{spec.backbone}, {sum(v.numel() for v in state.weights.values()):,} numbers"
        + (f", begun from {spec.pretrained}" if spec.pretrained else "")
        + (", backbone frozen" if spec.frozen else ""),
        "images": f"{spec.size} x {spec.size}, {'grey' if spec.channels == 1 else 'colour'}; mean "
        f"{', '.join(map(str, spec.mean))}, deviation {', '.join(map(str, spec.std))}",
        "memory": f"{spec.memory}: {len(state.exemplars)} exemplars, {len(state.held_out)} held-out images",
        "answers by": {"head": "the head", "nme": "the nearest mean of exemplars"}[state.reading],
        "temperature": f"{state.calibration.temperature:.3g}",
        "none of these": f"familiarity below {state.calibration.threshold:.3f}; false alarms on held-out images: "
        f"{state.calibration.false_alarm_rate:.1%} of {state.calibration.num_images}"
        if state.calibration.num_images
        else "never said: no image is held out",
        "written by": ", ".join(f"{name} {version}" for name, version in bundle.written_by.items())
        + f"; format {FORMAT} {VERSION}",
    }
    about = Table(show_header=False)
    for key, value in told.items():
        about.add_row(key, escape(printable(value)))
    yield about
    yield step_table(bundle)
    yield history_table(bundle)


@contextmanager
def epochs_of(console: Console, label: str) -> Iterator[Callable[[EpochResult], None]]:
    """A bar over the epochs of one step, with the time left; plain lines where there is no terminal."""
    with _bar(console) as bar:
        row = bar.add_task(label, total=None, detail="")
        begun = False

        def watch(end: EpochResult) -> None:
            nonlocal begun
            if end.epoch and not begun:
                console.print(f"{label}: goes on after epoch {end.epoch}", markup=False)
            begun = True
            if not console.is_terminal and (end.epoch + 1) % 10 == 0:
                console.print(f"{label}: epoch {end.epoch + 1} of {end.epochs}", markup=False)
            detail = f"epoch {end.epoch + 1}/{end.epochs}  loss {sum(end.losses.values()):.3f}"
            bar.update(row, completed=end.epoch + 1, total=end.epochs, detail=detail)

        yield watch


def _bar(console: Console) -> Progress:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        TextColumn("{task.fields[detail]}"),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def progress_of(console: Console, label: str) -> Iterator[ProgressCallback]:
    """A bar over the tasks of a run, with the time left; plain lines where there is no terminal."""
    with _bar(console) as bar:
        row = bar.add_task(label, total=None, detail="")

        def watch(step: RunProgress) -> None:
            if step.accuracy is not None:
                if not console.is_terminal:
                    line = f"{label}: task {step.task + 1} of {step.num_tasks}, accuracy {step.accuracy:.1f} %"
                    console.print(line, markup=False)
                bar.update(row, completed=step.task + 1, total=step.num_tasks)
                return
            done = step.task + (step.epoch + 1) / step.epochs
            loss = sum(step.losses.values())
            detail = f"task {step.task + 1}/{step.num_tasks}  epoch {step.epoch + 1}/{step.epochs}  loss {loss:.3f}"
            bar.update(row, completed=done, total=step.num_tasks, detail=detail)

        yield watch
