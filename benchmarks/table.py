"""Tables of docs/: runs over seeds on one data set.

    make table          # all methods and the rows of the ablation on digits: a quarter of an hour on two cores
    make compare        # four methods on a slice of CIFAR-100: about ten minutes a run, eight runs; needs its files
    make quick          # what the quick recipe reaches of a schedule ten times as long, on digits and on CIFAR-100

Runs that are done (runs/table) are not repeated, and a broken one goes on where it stopped.
"""

from __future__ import annotations

import re
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from upcl.methods import METHODS, VARIANTS
from upcl.records import Record
from upcl.report.terminal import progress_of
from upcl.runs import run

ROOT = Path(__file__).parents[1]
PARITY, PERFORMANCE = ROOT / "docs" / "parity.md", ROOT / "docs" / "performance.md"
HEAD = "| method | A_last head | A_last nme | A_avg head | A_avg nme | seconds |\n|---|---|---|---|---|---|"


@dataclass(frozen=True)
class Line:
    """One line of a table: what is asked of its runs beside what is asked of all."""

    title: str
    request: dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """What is trained, how often, what is asked of each run, and the page that shows it."""

    lines: tuple[Line, ...]
    seeds: tuple[int, ...]
    request: dict[str, Any]
    page: Path


def titled(name: str) -> str:
    return VARIANTS[name].title if name in VARIANTS else METHODS[name].title


def by_epochs(method: str, quick: tuple[int, ...], whole: int) -> tuple[Line, ...]:
    """The quick recipe with budgets of epochs, and the method's own schedule in a large one."""
    lines = [
        Line(f"{titled(method)}, quick, {n} epochs", {"method": method, "recipe": "quick", "epochs": n}) for n in quick
    ]
    own = Line(f"{titled(method)}, own schedule, {whole} epochs", {"method": method, "recipe": "own", "epochs": whole})
    return (*lines, own)


SLICE = {"data": "cifar100/T5:train=20,test=50", "backbone": "medium", "memory": "100"}
COMPARISONS = {
    "digits": Comparison(
        tuple(Line(titled(name), {"method": name}) for name in (*METHODS, *VARIANTS)),
        (0, 1, 2),
        {"data": "digits"},
        PARITY,
    ),
    "cifar100": Comparison(
        tuple(Line(titled(name), {"method": name}) for name in ("finetune", "icarl", "wa", "upcl")),
        (0, 1),
        {
            "data": "cifar100/T5:train=100",
            "backbone": "medium",
            "recipe": "quick",
            "memory": "500",
            "options": {"recipe.batch_size": 128},
        },
        PARITY,
    ),
    "quick": Comparison(
        tuple(line for name in METHODS for line in by_epochs(name, (10,), 100)), (0,), {"data": "digits"}, PERFORMANCE
    ),
    "seconds": Comparison(
        (*by_epochs("upcl", (2, 5, 15), 15), *by_epochs("icarl", (2, 5, 15), 15)),
        (0,),
        {**SLICE, "options": {"recipe.batch_size": 64}},
        PERFORMANCE,
    ),
}


def spread(values: list[float | None]) -> str:
    """Mean and standard deviation over the seeds; of one seed, its figure."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    deviation = f" ± {statistics.stdev(known):.1f}" if len(known) > 1 else ""
    return f"{statistics.mean(known):.1f}{deviation}"


def row(title: str, records: list[Record]) -> str:
    cells = [spread([r[key][reading] for r in records]) for key in ("a_last", "a_avg") for reading in ("head", "nme")]
    seconds = statistics.mean(sum(r["seconds"]) for r in records)
    return "| " + " | ".join([title, *cells, f"{seconds:.0f}"]) + " |"


def about(records: list[Record], seeds: tuple[int, ...]) -> str:
    """The setting, in a sentence above the table; of the recipes, what all lines share."""
    record, environment = records[0], records[0]["environment"]
    config = record["config"]
    recipes = [each["config"]["recipes"]["later"] for each in records]
    shared = {key: value for key, value in recipes[0].items() if all(recipe[key] == value for recipe in recipes)}
    told = {"epochs": "{} epochs a task", "schedule": "{} schedule", "lr": "rate {}", "batch_size": "batch {}"}
    same = ", ".join(text.format(shared[key]) for key, text in told.items() if key in shared)
    recipe = f"{same}, the same for every line" if same else "recipe and epochs as each line says"
    which = (
        f"seed {seeds[0]} (one seed)" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))}: mean ± deviation"
    )
    return (
        f"`{record['data']}`, {len(record['task_sizes'])} tasks, {config['memory']} exemplars, class order "
        f"{record['order_seed']}, {which}. Backbone `{config['backbone']}`; {recipe}; "
        f"protocol `{record['protocol']}`, {environment['threads']} threads, torch {environment['torch']}."
    )


def main(name: str) -> None:
    console, asked = Console(), COMPARISONS[name]
    trained: dict[str, list[Record]] = {}
    for line in asked.lines:
        for seed in asked.seeds:
            request = {**asked.request, **line.request, "seed": seed}
            slug = re.sub(r"[^\w.+]+", "-", f"{name} {line.title} seed{seed}")
            with progress_of(console, f"{line.title}, seed {seed}") as watch:
                record = run(**request, out=ROOT / "runs" / "table" / slug, resume=True, watch=watch)
            trained.setdefault(line.title, []).append(record)
    every = [record for records in trained.values() for record in records]
    lines = [about(every, asked.seeds), "", HEAD, *(row(*each) for each in trained.items())]
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = asked.page.read_text().partition(begin)
    asked.page.write_text("\n".join([before + begin, *lines, end + rest.partition(end)[2]]))
    console.print("\n".join(lines), markup=False)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        main(each)
