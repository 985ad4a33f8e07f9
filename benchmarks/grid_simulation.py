"""A grid of 1,000 runs on 64 workers that fail: the loop that executes real grids, with runs that only pass time.

    python benchmarks/grid_simulation.py        # seconds; prints the table of docs/performance.md

A run takes 20 minutes to two hours and saves a checkpoint every 30 seconds. A worker fails after an exponential time;
the run that it had waits until its claim is stale, and another worker continues it from its last checkpoint.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from upcl.core.lease import STALE_SECONDS
from upcl.research import executor
from upcl.research.backends import ExecutorOptions, RunHandle
from upcl.research.backends.base import State
from upcl.research.config import Request, resolve
from upcl.research.grid import GridRun, Job
from upcl.research.run import SAVE_SECONDS

NUM_RUNS, NUM_WORKERS = 1000, 64
SHORTEST, LONGEST = 20 * 60, 2 * 60 * 60  # seconds of a run
RESTART = 60.0  # seconds until a worker is back, and a run is loaded
HOUR = 3600.0


@dataclass
class Clock:
    """The time of the simulation; sleeping advances it."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, _: float) -> None:
        self.now += 10.0  # a coarser step than that of a real grid: the table changes every ten seconds


@dataclass
class FakeRun:
    """A run that ends after its time, with interruptions."""

    clock: Clock
    end: float

    def state(self) -> State:
        return "ended" if self.clock.now >= self.end else "running"

    def error(self) -> str:
        return ""

    def is_busy(self) -> bool:
        return False

    def stop(self) -> None:
        pass

    def join(self, seconds: float) -> None:
        pass


@dataclass
class FakeCluster:
    """Workers that fail."""

    clock: Clock
    hours_between_failures: float
    random: random.Random
    slots: int | None = NUM_WORKERS
    work: float = 0.0
    lost: float = 0.0
    failures: int = 0
    handles: dict[Path, FakeRun] = field(default_factory=dict)

    def start(self, runs: Sequence[GridRun]) -> list[RunHandle]:
        handles: list[RunHandle] = []
        for run in runs:
            seconds = self.random.uniform(SHORTEST, LONGEST)
            self.work += seconds
            self.handles[run.folder] = FakeRun(self.clock, self.clock.now + self._elapsed(seconds))
            handles.append(self.handles[run.folder])
        return handles

    def _elapsed(self, seconds: float) -> float:
        """Time until a run is finished, with what failures cost."""
        done = elapsed = 0.0
        while True:
            alive = self.random.expovariate(1 / (self.hours_between_failures * HOUR))
            if done + alive >= seconds:
                return elapsed + seconds - done
            self.failures += 1
            saved = (done + alive) // SAVE_SECONDS * SAVE_SECONDS
            self.lost += done + alive - saved + STALE_SECONDS + RESTART
            elapsed += alive + STALE_SECONDS + RESTART
            done = saved


def simulate(hours_between_failures: float) -> str:
    """Execute the grid once, and return a row of the table."""
    clock = Clock()
    cluster = FakeCluster(clock, hours_between_failures, random.Random(0))
    request = Request(data="digits")
    config = resolve(request, request.load_dataset(), request.method_class)
    runs = [GridRun(Job(str(k), request), Path(f"runs/{k}"), config) for k in range(NUM_RUNS)]

    @contextmanager
    def open_fake(_: ExecutorOptions) -> Iterator[FakeCluster]:
        yield cluster

    replaced: dict[str, Any] = {
        "time": SimpleNamespace(monotonic=clock.monotonic, sleep=clock.sleep),
        "make_backend": open_fake,
        "finished_share": lambda *_: 0.0,
        "finished_record": lambda folder, _: cluster.handles[folder].state() == "ended",
    }
    before = {name: getattr(executor, name) for name in replaced}
    for name, value in replaced.items():
        setattr(executor, name, value)
    try:
        executor.run_grid(runs, ExecutorOptions(Path("runs")), lambda _: None)
    finally:
        for name, value in before.items():
            setattr(executor, name, value)
    assert all(run.status == "done" for run in runs)
    ideal = cluster.work / NUM_WORKERS
    return (
        f"| {hours_between_failures:g} h | {cluster.failures} | {clock.now / HOUR:.1f} h | "
        f"{clock.now / ideal - 1:+.1%} | {cluster.lost / HOUR:.1f} h | {cluster.lost / cluster.work:.2%} |"
    )


def main() -> None:
    print(
        "| a worker fails every | failures | makespan | over the ideal | lost work | share |\n|---|---|---|---|---|---|"
    )
    for hours in (1e6, 100, 24, 4, 1):
        print(simulate(hours), flush=True)


if __name__ == "__main__":
    main()
