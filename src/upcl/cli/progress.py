"""Progress bars on standard error: of library work, of the epochs of an update, and of the tasks of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from upcl.core.progress import Advance, ProgressUnit

from .console import stderr_console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from upcl.research.run import ProgressCallback, RunProgress
    from upcl.training.engine import EpochResult

_active: ContextVar[Progress | None] = ContextVar("active_bars", default=None)


@contextmanager
def bars(console: Console) -> Iterator[Progress]:
    """The progress bars of the terminal, which vanish when done. Nested use adds bars to those shown already.

    Args:
        console: the console to draw on; nothing is drawn if it is not a terminal.

    Example:
        >>> with bars(stderr_console()) as outer, bars(stderr_console()) as inner:
        ...     inner is outer
        True
    """
    from rich.progress import (
        BarColumn,
        Progress,
        Task,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    if active := _active.get():
        yield active
        return

    class TimeLeftColumn(TimeRemainingColumn):
        def render(self, task: Task) -> Text:
            """The time left, where it is known: without the word, it could be taken for the time so far."""
            return Text("") if task.time_remaining is None else super().render(task).append(" left")

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeLeftColumn(),
        TextColumn("{task.fields[detail]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        token = _active.set(progress)
        try:
            yield progress
        finally:
            _active.reset(token)


@contextmanager
def show_progress(description: str, total: int | None, completed: int, unit: ProgressUnit) -> Iterator[Advance]:
    """Show a bar for one piece of library work; the reporter that `upcl.core.progress.report_progress` takes.

    Args:
        description: what is being done.
        total: the amount of work, if known.
        completed: how much of it was done before.
        unit: what is counted.

    Example:
        >>> with show_progress("decoding", total=3, completed=0, unit="items") as advance:
        ...     advance(1)
    """
    with bars(stderr_console()) as progress:
        row = progress.add_task(description, total=total, completed=completed, detail="")
        done = completed

        def advance(amount: int) -> None:
            nonlocal done
            done += amount
            detail = f"{done / 1e6:.1f} MB" if unit == "bytes" else f"{done}"
            progress.update(row, advance=amount, detail=f"{detail} of {_amount(total, unit)}" if total else detail)

        try:
            yield advance
        finally:
            progress.remove_task(row)


def _amount(total: int, unit: ProgressUnit) -> str:
    return f"{total / 1e6:.1f} MB" if unit == "bytes" else str(total)


@contextmanager
def epoch_progress(console: Console, label: str) -> Iterator[Callable[[EpochResult], None]]:
    """A bar over the epochs of one training stage; every tenth epoch a line if there is no terminal.

    Args:
        console: the console for progress.
        label: what is being trained.

    Yields:
        A callback for the end of every epoch.

    Example:
        >>> from upcl.cli.console import stdout_console
        >>> from upcl.training.engine import EpochResult
        >>> with epoch_progress(stdout_console(), "learning birds") as on_epoch:
        ...     for epoch in range(10):
        ...         on_epoch(EpochResult(epoch, epochs=30, lr=0.1, losses={"ce": 1.5}, state=dict))
        learning birds: epoch 10 of 30
    """
    with bars(console) as progress:
        row = progress.add_task(label, total=None, detail="")
        started = False

        def on_epoch(end: EpochResult) -> None:
            nonlocal started
            if end.epoch and not started:
                console.print(f"{label}: resuming after epoch {end.epoch}")
            started = True
            if not console.is_terminal and (end.epoch + 1) % 10 == 0:
                console.print(f"{label}: epoch {end.epoch + 1} of {end.epochs}")
            detail = f"epoch {end.epoch + 1}/{end.epochs}  loss {sum(end.losses.values()):.3f}"
            progress.update(row, completed=end.epoch + 1, total=end.epochs, detail=detail)

        yield on_epoch


@contextmanager
def run_progress(console: Console, label: str) -> Iterator[ProgressCallback]:
    """A bar over the tasks of a run; a line per task if there is no terminal.

    Args:
        console: the console for progress.
        label: what is being run.

    Yields:
        A callback for `upcl.run(..., on_progress=...)`.

    Example:
        >>> from upcl.cli.console import stdout_console
        >>> from upcl.research.run import RunProgress
        >>> with run_progress(stdout_console(), "icarl") as on_progress:
        ...     on_progress(RunProgress(0, 5, "done", 0, 1, {}, accuracy=98.0))
        icarl: task 1 of 5, accuracy 98.0 %
    """
    with bars(console) as progress:
        row = progress.add_task(label, total=None, detail="")

        def on_progress(step: RunProgress) -> None:
            if step.accuracy is not None:
                if not console.is_terminal:
                    line = f"{label}: task {step.task + 1} of {step.num_tasks}, accuracy {step.accuracy:.1f} %"
                    console.print(line)
                progress.update(row, completed=step.task + 1, total=step.num_tasks)
                return
            done = step.task + (step.epoch + 1) / step.epochs
            loss = sum(step.losses.values())
            detail = f"task {step.task + 1}/{step.num_tasks}  epoch {step.epoch + 1}/{step.epochs}  loss {loss:.3f}"
            progress.update(row, completed=done, total=step.num_tasks, detail=detail)

        yield on_progress
