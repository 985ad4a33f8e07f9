"""Tables of docs/parity.md: methods over seeds on one data set.

    make table          # all methods and the rows of the ablation on digits: about ten minutes on two cores
    make compare        # four methods on a slice of CIFAR-100: about ten minutes a run, eight runs; needs its files

Runs that are done (runs/table) are not repeated, and a broken one goes on where it stopped.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from upcl.methods import METHODS, VARIANTS
from upcl.records import Record
from upcl.report.terminal import progress_of
from upcl.runs import run

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "parity.md"
HEAD = "| method | A_last head | A_last nme | A_avg head | A_avg nme | seconds |\n|---|---|---|---|---|---|"


@dataclass(frozen=True)
class Comparison:
    """What is trained, how often, and what else is asked of each run."""

    data: str
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    request: dict[str, Any] = field(default_factory=dict)


COMPARISONS = {
    "digits": Comparison("digits", (*METHODS, *VARIANTS), (0, 1, 2)),
    "cifar100": Comparison(
        "cifar100/T5:train=100",
        ("finetune", "icarl", "wa", "upcl"),
        (0, 1),
        {"backbone": "medium", "recipe": "quick", "memory": "500", "options": {"recipe.batch_size": 128}},
    ),
}


def spread(values: list[float | None]) -> str:
    """Mean and standard deviation over the seeds."""
    known = [value for value in values if value is not None]
    return f"{statistics.mean(known):.1f} ± {statistics.stdev(known):.1f}" if known else "-"


def row(name: str, records: list[Record]) -> str:
    title = VARIANTS[name].title if name in VARIANTS else METHODS[name].title
    cells = [spread([r[key][reading] for r in records]) for key in ("a_last", "a_avg") for reading in ("head", "nme")]
    seconds = statistics.mean(sum(r["seconds"]) for r in records)
    return "| " + " | ".join([title, *cells, f"{seconds:.0f}"]) + " |"


def about(record: Record, seeds: tuple[int, ...]) -> str:
    """The setting, in a sentence above the table."""
    config, environment = record["config"], record["environment"]
    recipe = config["recipes"]["later"]
    return (
        f"`{record['data']}`, {len(record['task_sizes'])} tasks, {config['memory']} exemplars, class order "
        f"{record['order_seed']}, seeds {', '.join(map(str, seeds))}: mean ± standard deviation. Backbone "
        f"`{config['backbone']}`; {recipe['epochs']} epochs a task, {recipe['schedule']} rate {recipe['lr']}, batch "
        f"{recipe['batch_size']}, the same for every method; protocol `{record['protocol']}`, "
        f"{environment['threads']} threads, torch {environment['torch']}."
    )


def main(name: str) -> None:
    console, asked = Console(), COMPARISONS[name]
    trained: dict[str, list[Record]] = {}
    for method in asked.methods:
        for seed in asked.seeds:
            out = ROOT / "runs" / "table" / f"{name}-{method}-seed{seed}"
            with progress_of(console, f"{method} seed {seed}") as watch:
                record = run(method, asked.data, seed=seed, out=out, resume=True, watch=watch, **asked.request)
            trained.setdefault(method, []).append(record)
    lines = [about(record, asked.seeds), "", HEAD, *(row(*each) for each in trained.items())]
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = PAGE.read_text().partition(begin)
    PAGE.write_text("\n".join([before + begin, *lines, end + rest.partition(end)[2]]))
    console.print("\n".join(lines), markup=False)


if __name__ == "__main__":
    main(*sys.argv[1:] or ["digits"])
