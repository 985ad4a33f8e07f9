"""Compare the quick recipe with a schedule ten times as long and write the tables to docs/performance.md.

    make quick          # digits, all methods: half an hour on two cores; a slice of CIFAR-100 (in UPCL_DATA): as long

Finished runs (in runs/quick) are not repeated; interrupted ones are resumed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from upcl.methods.registry import METHODS
from upcl.research.config import Request
from upcl.research.record import ByReading, Record
from upcl.research.run import run

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "performance.md"
HEADER = "| method | A_last head | A_last nme | A_avg head | A_avg nme | seconds |\n|---|---|---|---|---|---|"
SLICE = {"data": "cifar100/T5:train=20,test=50", "backbone": "medium", "memory": "100"}


def requests(table: str) -> Iterator[tuple[str, Request]]:
    """The runs of a table, each with the title of its row.

    Args:
        table: "quick" for all methods on digits, "seconds" for two methods on a slice of CIFAR-100.
    """
    shared: dict[str, Any] = {"data": "digits"} if table == "quick" else SLICE
    if table == "quick":
        schedules = [(method, recipe, n) for method in METHODS for recipe, n in (("quick", 10), ("own", 100))]
    else:
        lengths = [("quick", 2), ("quick", 5), ("quick", 15), ("own", 15)]
        schedules = [(method, recipe, n) for method in ("upcl", "icarl") for recipe, n in lengths]
    for method, recipe, epochs in schedules:
        title = f"{METHODS[method].title}, {recipe}, {epochs} epochs"
        yield title, Request(**shared, method=method, recipe=recipe, epochs=epochs)


def describe_setting(record: Record) -> str:
    """The setting of a run, as a sentence above the table.

    Args:
        record: the run.
    """
    config, environment = record.config, record.environment
    return (
        f"`{record.data}`, {len(record.task_sizes)} tasks, {config.memory} exemplars, class order "
        f"{record.order_seed}, seed {record.seed} (one seed). Backbone `{config.backbone}`; protocol "
        f"`{record.protocol}`, {environment['threads']} threads, torch {environment['torch']}."
    )


def format_row(title: str, record: Record) -> str:
    """A row of the table.

    Args:
        title: the first cell.
        record: the run.
    """

    def cells(metric: ByReading[float]) -> list[str]:
        return ["-" if value is None else f"{value:.1f}" for value in (metric.head, metric.nme)]

    return "| " + " | ".join([title, *cells(record.a_last), *cells(record.a_avg), f"{sum(record.seconds):.0f}"]) + " |"


def main(table: str) -> None:
    """Run a table and replace it on the page.

    Args:
        table: name of the table.
    """
    records = {}
    for title, request in requests(table):
        print(title, flush=True)
        out = ROOT / "runs" / "quick" / re.sub(r"[^\w.+]+", "-", f"{table} {title}")
        records[title] = run(request, out=out, resume=True)
    lines = [describe_setting(next(iter(records.values()))), "", HEADER, *(format_row(*row) for row in records.items())]
    begin, end = f"<!-- {table}: begin -->", f"<!-- {table}: end -->"
    before, _, rest = PAGE.read_text().partition(begin)
    PAGE.write_text("\n".join([before + begin, *lines, end + rest.partition(end)[2]]))
    print("\n".join(lines))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        main(name)
