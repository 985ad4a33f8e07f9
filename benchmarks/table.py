"""All methods and the rows of the ablation on `digits` over seeds, as a table in docs/parity.md.

make table          # about ten minutes on two cores; runs that are done (runs/table) are not repeated
"""

from __future__ import annotations

import statistics
from pathlib import Path

from rich.console import Console

from upcl.methods import METHODS, VARIANTS
from upcl.records import Record
from upcl.report.terminal import progress_of
from upcl.runs import run

SEEDS = (0, 1, 2)
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "parity.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def spread(values: list[float | None]) -> str:
    """Mean and standard deviation over the seeds."""
    known = [value for value in values if value is not None]
    return f"{statistics.mean(known):.1f} ± {statistics.stdev(known):.1f}" if known else "-"


def row(title: str, records: list[Record]) -> str:
    cells = [spread([r[key][reading] for r in records]) for key in ("a_last", "a_avg") for reading in ("head", "nme")]
    seconds = statistics.mean(sum(r["seconds"]) for r in records)
    return "| " + " | ".join([title, *cells, f"{seconds:.0f}"]) + " |"


def trained(name: str, console: Console) -> list[Record]:
    records = []
    for seed in SEEDS:
        out = ROOT / "runs" / "table" / f"{name}-seed{seed}"
        with progress_of(console, f"{name} seed {seed}") as watch:
            records.append(run(name, "digits", seed=seed, out=out, resume=True, watch=watch))
    return records


def main() -> None:
    console = Console()
    head = "| method | A_last head | A_last nme | A_avg head | A_avg nme | seconds |\n|---|---|---|---|---|---|"
    methods = [(method.title, trained(name, console)) for name, method in METHODS.items()]
    rows = [(variant.title, trained(name, console)) for name, variant in VARIANTS.items()]
    some = methods[0][1][0]
    threads, torch = some["environment"]["threads"], some["environment"]["torch"]
    about = (
        f"`digits`, {len(some['task_sizes'])} tasks, {some['config']['memory']} exemplars, class order "
        f"{some['order_seed']}, seeds {', '.join(map(str, SEEDS))}: mean ± standard deviation. Backbone "
        f"`{some['config']['backbone']}`, recipe `quick` for every method, protocol `{some['protocol']}`, "
        f"{threads} threads, torch {torch}."
    )
    lines = [BEGIN, about, "", head, *(row(*r) for r in methods), "", "The rows of the ablation:", "", head]
    lines += [*(row(*r) for r in rows), END]
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + "\n".join(lines) + rest.partition(END)[2])
    console.print("\n".join(lines), markup=False)


if __name__ == "__main__":
    main()
