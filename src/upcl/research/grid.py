"""Many runs from one file: methods x data x memory x seeds, in local processes that share the cores."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from upcl.core.errors import UpclError, UserError, unknown_choice
from upcl.core.options import fields_of
from upcl.data import Dataset, load_dataset
from upcl.methods.registry import find_method

from .config import Request, RunConfig, make_request, read_yaml, resolve

KEYS = ("title", "about", "same", "vary")
Status = Literal["waiting", "running", "done", "done before", "failed", "stopped"]


@dataclass(frozen=True)
class Job:
    """One run of a grid, named by what it varies."""

    name: str
    request: Request


@dataclass(frozen=True)
class Grid:
    """A title, what to expect, and the runs."""

    title: str
    about: str
    jobs: tuple[Job, ...]


def read_grid(path: Path) -> Grid:
    """A YAML file with `title`, `about`, `same` (fields of every run) and `vary` (lists: every combination is run)."""
    return make_grid(read_yaml(path), str(path))


def make_grid(content: Mapping[str, Any], where: str) -> Grid:
    for key in content:
        if key not in KEYS:
            raise unknown_choice(f"key of {where}", key, KEYS)
    same, vary = content.get("same") or {}, content.get("vary") or {}
    for part, name in ((same, "same"), (vary, "vary")):
        if not isinstance(part, Mapping):
            raise UserError(f"{where}: '{name}' must hold keys and values")
        for key in part:
            if key not in fields_of(Request):
                raise unknown_choice(f"key of '{name}' in {where}", key, fields_of(Request))
    if wrong := [key for key, values in vary.items() if not isinstance(values, list) or not values]:
        raise UserError(f"{where}: '{wrong[0]}' under 'vary' must be a list, such as [0, 1, 2]")
    jobs = []
    for values in itertools.product(*vary.values()):
        chosen = dict(zip(vary, values, strict=True))
        options = {**(same.get("options") or {}), **(chosen.get("options") or {})}
        name = "-".join(_slug(key, value) for key, value in chosen.items()) or "run"
        jobs.append(Job(name, make_request({**same, **chosen, "options": options})))
    if len({job.name for job in jobs}) < len(jobs):
        raise UserError(f"{where}: two runs are the same; look for a value that stands twice in a list")
    return Grid(str(content.get("title") or Path(where).stem), str(content.get("about") or ""), tuple(jobs))


def _slug(key: str, value: Any) -> str:
    if isinstance(value, Mapping):
        value = ",".join(f"{k}={v}" for k, v in value.items()) or "default"
    elif key not in ("method", "data", "options"):
        value = f"{key}{value}"
    return re.sub(r"[^\w.=,+^]+", "_", str(value))


@dataclass
class GridRun:
    """Where one run of the grid stands. `begun` is the share that was done when it was started."""

    job: Job
    folder: Path
    config: RunConfig | None = None
    status: Status = "waiting"
    share: float = 0.0
    seconds: float = 0.0
    error: str = ""
    record: dict[str, Any] | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    started: float = 0.0
    begun: float = 0.0


@lru_cache(maxsize=4)
def _dataset(spec: str, root: Path | None) -> Dataset:
    return load_dataset(spec, root)


def prepare(grid: Grid, out: Path, data_root: Path | None) -> list[GridRun]:
    """Resolve every run before any starts. What cannot be resolved has failed; what is there already is done.

    Folders are named by what is run: grids with one `out` share the runs that they have in common, and a changed grid
    has new ones.
    """
    rows = []
    for job in grid.jobs:
        row = GridRun(job, out / job.name)
        rows.append(row)
        try:
            row.config = resolve(job.request, _dataset(job.request.data, data_root), find_method(job.request.method))
        except UpclError as error:
            row.status, row.error = "failed", str(error)
            continue
        row.folder = out / f"{_slug('method', row.config.method)}-seed{row.config.seed}-{row.config.digest()[:8]}"
        row.record = _finished(row)
        if row.record:
            row.status, row.share = "done before", 1.0
    return rows


def _finished(row: GridRun) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads((row.folder / "record.json").read_text())
    except (OSError, ValueError):
        return None
    assert row.config
    return record if record.get("finished") and record["config_digest"] == row.config.digest() else None


def seconds_left(rows: Sequence[GridRun], jobs: int) -> float | None:
    """By the pace of this grid so far; None while nothing is known."""
    known = [row for row in rows if row.seconds and row.share > row.begun]
    spent = sum(row.seconds for row in known)
    work = sum((row.share - row.begun) * _work(row) for row in known)
    left = sum((1 - row.share) * _work(row) for row in rows if row.status in ("waiting", "running"))
    return spent / work * left / jobs if work else None


def _work(row: GridRun) -> float:
    assert row.config
    recipes = row.config.recipes
    return recipes.first.epochs + recipes.later.epochs * (len(row.config.task_sizes) - 1)
