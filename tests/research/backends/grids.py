"""A grid of short runs, and the records that every back end must produce."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from upcl.research.backends import ExecutorOptions
from upcl.research.executor import run_grid
from upcl.research.grid import Grid, GridRun, make_grid, prepare
from upcl.research.run import run

TINY: dict[str, Any] = {"data": "synthetic:classes=4,train=8,test=4", "tasks": 2, "epochs": 2, "memory": "4"}


def tiny_grid(methods: Sequence[str], seeds: Sequence[int], **same: Any) -> Grid:
    return make_grid({"same": {**TINY, **same}, "vary": {"method": list(methods), "seed": list(seeds)}}, "tiny")


def execute(grid: Grid, options: ExecutorOptions, on_change: Any = lambda _: None) -> list[GridRun]:
    runs = prepare(grid, options.out, None)
    run_grid(runs, options, on_change)
    return runs


def assert_records(runs: Sequence[GridRun], folder: Path) -> None:
    """Every run has the record that a process of its own gives it, in a folder named by its digest."""
    for each in runs:
        assert each.status == "done", each.error
        assert each.record and each.folder.parent == folder and each.record.config_digest[:8] in each.folder.name
        expected = run(each.job.request, device="cpu")
        assert each.record.reproducible_part() == expected.reproducible_part()
