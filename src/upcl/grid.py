"""Many runs from one file: methods x data x memory x seeds, in local processes that share the cores."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
import yaml

from .config import Request, RunConfig, fields_of, find_method, make_request, read_yaml, resolve
from .core import Stage
from .data import Dataset, load_dataset
from .engine import fit
from .errors import UpclError, UserError, unknown
from .memory import Budget
from .protocol import Protocol
from .runs import make_setting
from .seeding import isolated, seed_all

POLL_SECONDS = 0.5
STOP_SECONDS = 20.0
PROBED_BATCHES = 2
PROBES = 3  # the quickest counts: the first warms up, others may be disturbed
TEACHER = 1.4  # of a step, with a teacher's forward
TIED = "UPCL_ENDS_WITH_ITS_GRID"
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
            raise unknown(f"key of {where}", key, KEYS)
    same, vary = content.get("same") or {}, content.get("vary") or {}
    for part, name in ((same, "same"), (vary, "vary")):
        if not isinstance(part, Mapping):
            raise UserError(f"{where}: '{name}' must hold keys and values")
        for key in part:
            if key not in fields_of(Request):
                raise unknown(f"key of '{name}' in {where}", key, fields_of(Request))
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
class Progress:
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


def prepare(grid: Grid, out: Path, data_root: Path | None) -> list[Progress]:
    """Resolve every run before any starts. What cannot be resolved has failed; what is there already is done.

    Folders are named by what is run: grids with one `out` share the runs that they have in common, and a changed grid
    has new ones.
    """
    rows = []
    for job in grid.jobs:
        row = Progress(job, out / job.name)
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


def _finished(row: Progress) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads((row.folder / "record.json").read_text())
    except (OSError, ValueError):
        return None
    assert row.config
    return record if record.get("finished") and record["config_digest"] == row.config.digest() else None


@dataclass(frozen=True)
class Place:
    """Where and how the runs of a grid are done."""

    out: Path
    jobs: int = 1
    device: str = "auto"
    data_root: Path | None = None


def run_grid(rows: Sequence[Progress], place: Place, show: Callable[[Sequence[Progress]], None]) -> None:
    """Do what is left, `jobs` at a time. A failed run does not stop the others; Ctrl-C stops all, to go on later."""
    try:
        while any(row.status in ("waiting", "running") for row in rows):
            running = [row for row in rows if row.status == "running"]
            for row in [row for row in rows if row.status == "waiting"][: place.jobs - len(running)]:
                _start(row, place)
            for row in running:
                _look(row)
            show(rows)
            time.sleep(POLL_SECONDS)
    finally:
        _stop([row for row in rows if row.status == "running"])
        show(rows)


def _start(row: Progress, place: Place) -> None:
    """A process of its own with its share of the cores; its words go to a log beside its folder."""
    asked = {k: v for k, v in vars(row.job.request).items() if v is not None}
    requests, logs = place.out / "requests", place.out / "logs"
    for folder in (requests, logs):
        folder.mkdir(parents=True, exist_ok=True)
    request = requests / f"{row.folder.name}.yaml"
    request.write_text(yaml.safe_dump(json.loads(json.dumps(asked)), sort_keys=False))
    threads = max(1, (os.cpu_count() or 1) // place.jobs)
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE", TIED: "yes"}
    words = ["train", "--config", str(request), "--out", str(row.folder), "--resume", "--device", place.device]
    words += ["--data-root", str(place.data_root)] if place.data_root else []
    with (logs / f"{row.folder.name}.log").open("wb") as log:
        row.process = subprocess.Popen(
            [sys.executable, "-m", "upcl", *words],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=env,
            start_new_session=True,
        )
    assert row.config
    row.status, row.started, row.begun = "running", time.monotonic(), _share(row.folder, row.config)


def end_with_the_grid() -> None:
    """In a run that a grid started: end when the grid does, however it ends. A run can be stopped at any moment."""
    if os.environ.get(TIED):
        threading.Thread(target=lambda: (sys.stdin.read(), os._exit(1)), daemon=True).start()


def _look(row: Progress) -> None:
    assert row.process and row.config
    row.seconds = time.monotonic() - row.started
    row.share = _share(row.folder, row.config)
    if row.process.poll() is None:
        return
    row.process.communicate()  # closes the pipe
    row.record = _finished(row)
    row.status, row.share = ("done", 1.0) if row.record else ("failed", row.share)
    if not row.record:
        log = row.folder.parent / "logs" / f"{row.folder.name}.log"
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        row.error = f"exit {row.process.returncode}: {lines[-1] if lines else 'it said nothing'} ({log})"


def _share(folder: Path, config: RunConfig) -> float:
    """How much of a run is done, by the last line of its events."""
    try:
        with (folder / "events.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
            last = json.loads(file.read().splitlines()[-1])
    except (OSError, IndexError, ValueError):
        return 0.0
    recipe = config.recipes.first if last["task"] == 0 else config.recipes.later
    within = min(1.0, (last["epoch"] + 1) / recipe.epochs)
    return float((last["task"] + within) / len(config.task_sizes))


def _stop(rows: Sequence[Progress]) -> None:
    """Ask politely, then firmly: a run may be stopped at any moment without loss."""
    for row in rows:
        assert row.process
        row.process.send_signal(signal.SIGINT)
    until = time.monotonic() + STOP_SECONDS
    for row in rows:
        assert row.process
        try:
            row.process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            row.process.kill()
        row.process.communicate()
        row.status = "stopped"


def seconds_left(rows: Sequence[Progress], jobs: int) -> float | None:
    """By the pace of this grid so far; None while nothing is known."""
    known = [row for row in rows if row.seconds and row.share > row.begun]
    spent = sum(row.seconds for row in known)
    work = sum((row.share - row.begun) * _work(row) for row in known)
    left = sum((1 - row.share) * _work(row) for row in rows if row.status in ("waiting", "running"))
    return spent / work * left / jobs if work else None


def _work(row: Progress) -> float:
    assert row.config
    recipes = row.config.recipes
    return recipes.first.epochs + recipes.later.epochs * (len(row.config.task_sizes) - 1)


@dataclass(frozen=True)
class Estimate:
    """What a run would take: seconds on this machine with all its cores, bytes on disk."""

    seconds: float
    disk: int


def estimates(rows: Sequence[Progress], data_root: Path | None, device: torch.device) -> Iterator[Estimate | None]:
    """For each run that is left, by a probe of a few steps for each method, data set and network."""
    paces: dict[tuple[str, str, str, str], tuple[float, int, Budget]] = {}
    for row in rows:
        if row.config is None or row.status != "waiting":
            yield None
            continue
        config, dataset = row.config, _dataset(row.job.request.data, data_root)
        key = (config.method, row.job.request.data, config.backbone, config.memory)
        if key not in paces:
            paces[key] = _probe(config, dataset, device)
        pace, size, budget = paces[key]
        protocol = Protocol(dataset, config.task_sizes, config.order_seed, config.validation, config.tail, config.order)
        image = torch.Size(dataset.image_shape).numel()
        counts, kept, seconds = list[int](), 0, 0.0
        for index in range(len(protocol)):
            task = protocol.task(index)
            with_teacher = TEACHER if index and find_method(config.method).uses_teacher else 1.0
            seconds += (len(task.train) + kept) * config.recipes.of(task).epochs * pace * with_teacher
            counts += task.train.counts(task.num_seen)[task.num_old :].tolist()
            kept = sum(budget.quotas(counts, image))
        yield Estimate(seconds, 2 * size + kept * image)


def _probe(config: RunConfig, dataset: Dataset, device: torch.device) -> tuple[float, int, Budget]:
    """Seconds an image in the first task, bytes of the network, and the exemplars that the method keeps."""
    with isolated():
        method = find_method(config.method)(**config.options)
        seed_all(0)
        method.start(make_setting(config, dataset, device))
        protocol = Protocol(dataset, config.task_sizes, config.order_seed)
        stage = next(iter(method.learn(protocol.task(0))))
        batch = stage.recipe.batch_for(len(stage.data))
        recipe = dataclasses.replace(stage.recipe.scaled(1), batch_size=batch, min_steps=0)
        some = stage.data[: PROBED_BATCHES * batch]
        short = Stage(stage.name, some, stage.losses, stage.params, recipe, stage.augment, stage.frozen)
        taken = []
        for _ in range(PROBES):
            start = time.perf_counter()
            fit(method.net, short, transform=dataset.transform, device=device, place=(0,))
            taken.append(time.perf_counter() - start)
        size = sum(value.numel() * value.element_size() for value in method.net.state_dict().values())
    return min(taken) / len(some), size, method.memory.budget
