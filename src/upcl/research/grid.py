"""Many runs from one file: every combination of methods, data sets, memories and seeds."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from upcl.core.errors import UpclError, UserError, unknown_choice
from upcl.core.options import fields_of
from upcl.data import Dataset, load_dataset
from upcl.nets import Precision

from .config import Request, RunConfig, resolve
from .parsing import read_yaml
from .record import Record, finished_record

if TYPE_CHECKING:
    from .backends import RunHandle

KEYS = ("title", "about", "same", "vary", "more", "slurm")
MAX_RUNS = 10_000
Status = Literal["waiting", "queued", "running", "done", "done before", "failed", "stopped"]


@dataclass(frozen=True)
class Job:
    """One run of a grid.

    Args:
        name: what distinguishes it from the other runs.
        request: what to run.

    Example:
        >>> Job("icarl-seed0", Request(method="icarl", seed=0)).request.method_name
        'icarl'
    """

    name: str
    request: Request


@dataclass(frozen=True)
class Grid:
    """A list of runs.

    Args:
        title: what the grid is called.
        about: what to expect.
        jobs: the runs.
        slurm: options for Slurm, as `--slurm` takes them.

    Example:
        >>> grid = make_grid({"title": "two seeds", "vary": {"seed": [0, 1]}}, "example")
        >>> grid.title, [job.name for job in grid.jobs]
        ('two seeds', ['seed0', 'seed1'])
    """

    title: str
    about: str
    jobs: tuple[Job, ...]
    slurm: Mapping[str, Any] = field(default_factory=dict)


def read_grid(path: Path) -> Grid:
    """Read a grid from a YAML file with `title`, `about`, `same`, `vary` and `more`; see `make_grid`.

    Args:
        path: the YAML file.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "mine.yaml"
        >>> _ = path.write_text("vary: {seed: [0, 1, 2]}")
        >>> len(read_grid(path).jobs)
        3
    """
    return make_grid(read_yaml(path), str(path))


def make_grid(content: Mapping[str, Any], where: str) -> Grid:
    """Make a grid of every combination of values.

    Args:
        content: `same` holds the fields of a request that all runs share, `vary` a list of values for each other field.
            Each item of `more` replaces some of these lists and adds the combinations that result. `title` and `about`
            describe the grid, and `slurm` holds options for `--on slurm`.
        where: what to call it in error messages.

    Raises:
        UserError: if a key is unknown or a value is wrong.

    Example:
        >>> vary = {"method": ["icarl", "upcl"], "seed": [0, 1]}
        >>> grid = make_grid({"same": {"data": "digits"}, "vary": vary}, "example")
        >>> [job.name for job in grid.jobs]
        ['icarl-seed0', 'icarl-seed1', 'upcl-seed0', 'upcl-seed1']
    """
    _check_grid(content, where)
    same, jobs = content.get("same") or {}, []
    for vary in _varied(content):
        for values in itertools.product(*vary.values()):
            chosen = dict(zip(vary, values, strict=True))
            options = {**(same.get("options") or {}), **(chosen.get("options") or {})}
            name = "-".join(_slug(key, value) for key, value in chosen.items()) or "run"
            jobs.append(Job(name, Request.from_mapping({**same, **chosen, "options": options})))
    if len({job.name for job in jobs}) < len(jobs):
        raise UserError(f"{where}: two runs are identical; look for a repeated value in a list")
    title, about = str(content.get("title") or Path(where).stem), str(content.get("about") or "")
    return Grid(title, about, tuple(jobs), content.get("slurm") or {})


def _varied(content: Mapping[str, Any]) -> list[dict[str, list[Any]]]:
    """The lists to combine: `vary`, and `vary` with each item of `more` in place of some of its lists."""
    vary = content.get("vary") or {}
    return [vary, *({**vary, **more} for more in content.get("more") or ())]


def _check_grid(content: Mapping[str, Any], where: str) -> None:
    """Make sure that a grid has the right form and a sensible size, before its runs are made."""
    for key in content:
        if key not in KEYS:
            raise unknown_choice(f"key of {where}", key, KEYS)
    same, vary, slurm = (content.get(key) or {} for key in ("same", "vary", "slurm"))
    more = content.get("more") or []
    if not isinstance(more, list):
        raise UserError(f"{where}: 'more' must be a list of what replaces parts of 'vary', such as [{{seed: [1]}}]")
    _check_keys({"same": same, "slurm": slurm}, where)
    for part in ({"vary": vary}, *({"more": each} for each in more)):
        _check_keys(part, where)
        _check_lists(part, where)
    varied = _varied(content)
    if sum(math.prod(len(values) for values in lists.values()) for lists in varied) > MAX_RUNS:
        raise UserError(f"{where}: the lists under 'vary' make more than {MAX_RUNS:,} runs: split the grid")
    options = (same.get("options"), *(each for lists in varied for each in lists.get("options", ())))
    if not all(isinstance(each or {}, Mapping) for each in options):
        raise UserError(f"{where}: 'options' must hold keys and values, such as {{tau: 0.1}}")


def _check_keys(parts: Mapping[str, Any], where: str) -> None:
    for name, part in parts.items():
        if not isinstance(part, Mapping) or not all(isinstance(key, str) for key in part):
            raise UserError(f"{where}: '{name}' must hold keys and values")
        for key in part if name != "slurm" else ():
            if key not in fields_of(Request):
                raise unknown_choice(f"key of '{name}' in {where}", key, fields_of(Request))


def _check_lists(parts: Mapping[str, Any], where: str) -> None:
    for name, part in parts.items():
        if wrong := [key for key, values in part.items() if not isinstance(values, list) or not values]:
            raise UserError(f"{where}: '{wrong[0]}' under '{name}' must be a list, such as [0, 1, 2]")


def _slug(key: str, value: Any) -> str:
    if isinstance(value, Mapping):
        value = ",".join(f"{k}={v}" for k, v in value.items()) or "default"
    elif key not in ("method", "data", "options"):
        value = f"{key}{value}"
    return re.sub(r"[^\w.=,+^]+", "_", str(value))


@dataclass
class GridRun:
    """The state of one run of a grid.

    Args:
        job: what to run.
        folder: the run's folder.
        config: the resolved configuration; None if it could not be resolved.
        status: what happens with it.
        share: how much of it is done.
        seconds: time since it was started.
        error: why it failed.
        record: its record, once it has finished.
        handle: what the back end that executes it returned.
        claim: token and count of another process that works on it, and when it was last seen counting.
        started: when it was started, on the monotonic clock.
        resumed_at: the share that was done when it was started.

    Example:
        >>> run = GridRun(Job("seed0", Request()), Path("runs/seed0"))
        >>> run.status, run.share
        ('waiting', 0.0)
    """

    job: Job
    folder: Path
    config: RunConfig | None = None
    status: Status = "waiting"
    share: float = 0.0
    seconds: float = 0.0
    error: str = ""
    record: Record | None = None
    handle: RunHandle | None = field(default=None, repr=False)
    claim: tuple[str, int, float] = ("", -1, 0.0)
    started: float = 0.0
    resumed_at: float = 0.0


@lru_cache(maxsize=4)
def cached_dataset(data: str, data_root: Path | None) -> Dataset:
    """A data set by its name; the last few are kept, since the runs of a grid share them.

    Args:
        data: name of the data set, with options.
        data_root: folder that holds data sets.

    Example:
        >>> cached_dataset("digits", None) is cached_dataset("digits", None)
        True
    """
    return load_dataset(data, data_root)


def prepare(grid: Grid, out: Path, data_root: Path | None) -> list[GridRun]:
    """Resolve every run before any starts: what cannot be resolved has failed, what has finished is not run again.

    Folders are named after the config digest: grids with the same `out` share the runs that they have in common, and
    an edited grid gets new ones.

    Args:
        grid: the runs.
        out: folder of the runs.
        data_root: folder that holds data sets.

    Example:
        >>> grid = make_grid({"vary": {"seed": [0, 1]}}, "example")
        >>> [run.status for run in prepare(grid, Path("runs"), None)]
        ['waiting', 'waiting']
    """
    runs = []
    for job in grid.jobs:
        run = GridRun(job, out / job.name)
        runs.append(run)
        try:
            run.config = _resolve(job.request, out, data_root)
        except UpclError as error:
            run.status, run.error = "failed", str(error)
            continue
        run.job = dataclasses.replace(job, request=dataclasses.replace(job.request, precision=run.config.precision))
        run.folder = _folder(out, run.config)
        run.record = finished_record(run.folder, run.config)
        if run.record:
            run.status, run.share = "done before", 1.0
    return runs


def _folder(out: Path, config: RunConfig) -> Path:
    return out / f"{_slug('method', config.method)}-seed{config.seed}-{config.digest()[:8]}"


def _resolve(request: Request, out: Path, data_root: Path | None) -> RunConfig:
    """Resolve a request; a run that was begun on another processor keeps the precision it was begun with."""
    config = resolve(request, cached_dataset(str(request.data), data_root), request.method_class)
    if request.precision in (None, "auto"):
        for precision in get_args(Precision):
            other = dataclasses.replace(config, precision=precision)
            if _folder(out, other).exists():
                return other
    return config


def seconds_left(runs: Sequence[GridRun], jobs: int) -> float | None:
    """Estimate the remaining time from the pace so far.

    Args:
        runs: all runs of the grid.
        jobs: number of runs at a time.

    Returns:
        Seconds; None while nothing is known.

    Example:
        >>> seconds_left([], jobs=1) is None
        True
    """
    known = [run for run in runs if run.seconds and run.share > run.resumed_at]
    spent = sum(run.seconds for run in known)
    work = sum((run.share - run.resumed_at) * _work(run) for run in known)
    left = sum((1 - run.share) * _work(run) for run in runs if run.status in ("waiting", "queued", "running"))
    return spent / work * left / jobs if work else None


def _work(run: GridRun) -> float:
    assert run.config
    recipes = run.config.recipes
    return recipes.first.epochs + recipes.later.epochs * (len(run.config.task_sizes) - 1)
