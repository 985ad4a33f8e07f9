"""Tables about runs: one per run or task, and where the time of a step goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .console import format_number

if TYPE_CHECKING:
    from rich.table import Table

    from upcl.research.record import ByReading, Record
    from upcl.training.profiler import Trace


def each_reading(figure: ByReading[float] | ByReading[float | None]) -> list[str]:
    """Cells of a table: the figure of the head, of the nearest mean of exemplars, and of both together.

    Args:
        figure: a figure of a record.

    Example:
        >>> from upcl.research.record import ByReading
        >>> each_reading(ByReading[float](head=81.25, nme=None))
        ['81.2', '-', '-']
    """
    from upcl.training.evaluate import READINGS

    return [format_number(figure[reading]) for reading in READINGS]


def summary_table(records: Sequence[Record], title: str) -> Table:
    """A table with one row per run and the readings side by side.

    Args:
        records: the records of the runs.
        title: the title of the table.

    Example:
        >>> from upcl import Request, run
        >>> record = run(Request(method="finetune", data="synthetic:classes=2,train=4,test=4", tasks=2, epochs=1))
        >>> list(summary_table([record], "one run").columns[0].cells)
        ['Finetune']
    """
    from rich.table import Table

    from upcl.research.grouping import method_title
    from upcl.training.evaluate import READINGS

    caption = (
        "head: the classifier; nme: nearest mean of exemplars; both: the two together\n"
        "forgot: forgetting by the head, the drop on earlier tasks; '-': no exemplars"
    )
    table = Table(title=title, caption=caption)
    table.add_column("method")
    for figure in ("A_last", "A_avg"):
        for reading in READINGS:
            table.add_column(f"{figure}\n{reading}", justify="right")
    for column in ("forgot", "time"):
        table.add_column(column, justify="right")
    for record in records:
        figures = [cell for figure in (record.a_last, record.a_avg) for cell in each_reading(figure)]
        forgot, seconds = format_number(record.forgetting.head), f"{sum(record.seconds):.0f} s"
        table.add_row(method_title(record), *figures, forgot, seconds)
    return table


def task_table(record: Record) -> Table:
    """A table with one row per task of a run.

    Args:
        record: the record of the run.

    Example:
        >>> from upcl import Request, run
        >>> record = run(Request(method="finetune", data="synthetic:classes=2,train=4,test=4", tasks=2, epochs=1))
        >>> list(task_table(record).columns[1].cells)  # number of classes of each task
        ['1', '1']
    """
    from rich.table import Table

    from upcl.research.grouping import method_title

    caption = (
        "size: new classes; head, nme, both: accuracy in % on all classes seen\n"
        "(old, new: on those, by the head); IR: imbalance ratio; kept: exemplars"
    )
    table = Table(title=f"{method_title(record)} on {record.data}, seed {record.seed}", caption=caption)
    for column in ("task", "size", "head", "old", "new", "nme", "both", "IR", "kept", "sec.", "peak\nMB"):
        table.add_column(column, justify="right")
    unknown: Sequence[float | None] = [None] * len(record.seconds)
    nme, both = record.top1.nme or unknown, record.top1.both or unknown
    for t, size in enumerate(record.task_sizes[: len(record.seconds)]):
        table.add_row(
            str(t + 1),
            str(size),
            format_number(record.top1.head[t]),
            format_number(record.old.head[t]),
            format_number(record.new.head[t]),
            format_number(nme[t]),
            format_number(both[t]),
            format_number(record.imbalance_ratio[t]),
            str(record.exemplars[t]),
            f"{record.seconds[t]:.1f}",
            format_number(record.peak_memory_mb[t]),
        )
    return table


def profile_tables(traces: Sequence[Trace]) -> Iterator[Table]:
    """Tables of where the time of a training step goes, by part of the loop and by operation.

    Args:
        traces: the traced tasks.

    Example:
        >>> from pathlib import Path
        >>> from upcl.training.profiler import Trace
        >>> parts = {"batch": 1.0, "losses": 4.0, "backward": 3.0, "update": 2.0}
        >>> (table,) = profile_tables([Trace(0, 10, Path("profile-task-0.json"), parts, operations={})])
        >>> list(table.columns[2].cells)
        ['10%', '40%', '30%', '20%']
    """
    from rich.table import Table

    for trace in traces:
        total = sum(trace.parts.values())
        title = f"task {trace.task}: {trace.steps} steps, {trace.path.name}"
        table = Table("part", "ms per step", "share", title=title)
        for name, milliseconds in trace.parts.items():
            table.add_row(name, f"{milliseconds:.1f}", f"{milliseconds / total:.0%}")
        table.add_section()
        for name, milliseconds in trace.operations.items():
            table.add_row(name, f"{milliseconds:.1f}", "")
        yield table
