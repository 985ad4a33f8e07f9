"""What the quick recipe reaches of a schedule ten times as long, written into docs/performance.md.

    make quick          # digits, all methods: half an hour on two cores; CIFAR-100's slice (in UPCL_DATA): as long

Runs that are done (runs/quick) are not repeated, and a broken one goes on where it stopped.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from upcl.cli.progress import run_progress
from upcl.cli.train import both_readings
from upcl.methods.registry import METHODS
from upcl.research.config import Request
from upcl.research.record import Record
from upcl.research.run import run

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "performance.md"
HEAD = "| method | A_last head | A_last nme | A_avg head | A_avg nme | seconds |\n|---|---|---|---|---|---|"
SLICE = {"data": "cifar100/T5:train=20,test=50", "backbone": "medium", "memory": "100"}


def budgets(name: str) -> Iterator[tuple[str, Request]]:
    """The lines of a table: a title, and what is asked of its run."""
    if name == "quick":
        same: dict[str, Any] = {"data": "digits"}
        asked = [(method, recipe, n) for method in METHODS for recipe, n in (("quick", 10), ("own", 100))]
    else:
        same = SLICE
        short = [("quick", 2), ("quick", 5), ("quick", 15), ("own", 15)]
        asked = [(method, recipe, n) for method in ("upcl", "icarl") for recipe, n in short]
    for method, recipe, epochs in asked:
        title = f"{METHODS[method].title}, {recipe}, {epochs} epochs"
        yield title, Request(**same, method=method, recipe=recipe, epochs=epochs)


def about(record: Record) -> str:
    """The setting, in a sentence above the table."""
    config, environment = record.config, record.environment
    return (
        f"`{record.data}`, {len(record.task_sizes)} tasks, {config.memory} exemplars, class order "
        f"{record.order_seed}, seed {record.seed} (one seed). Backbone `{config.backbone}`; protocol "
        f"`{record.protocol}`, {environment['threads']} threads, torch {environment['torch']}."
    )


def row(title: str, record: Record) -> str:
    cells = [*both_readings(record.a_last), *both_readings(record.a_avg), f"{sum(record.seconds):.0f}"]
    return "| " + " | ".join([title, *cells]) + " |"


def main(name: str) -> None:
    console, trained = Console(), {}
    for title, request in budgets(name):
        with run_progress(console, title) as bar:
            out = ROOT / "runs" / "quick" / re.sub(r"[^\w.+]+", "-", f"{name} {title}")
            trained[title] = run(request, out=out, resume=True, on_progress=bar)
    lines = [about(next(iter(trained.values()))), "", HEAD, *(row(*each) for each in trained.items())]
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = PAGE.read_text().partition(begin)
    PAGE.write_text("\n".join([before + begin, *lines, end + rest.partition(end)[2]]))
    console.print("\n".join(lines), markup=False)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        main(each)
