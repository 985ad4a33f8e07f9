"""Runs on a dask cluster: a scheduler's address, or workers that are started on this machine.

Each run is a subprocess of the worker that executes it, so that a worker answers its scheduler at any time. If a worker
dies, dask gives its run to another one.
"""

from __future__ import annotations

import math
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
from distributed import Client, Event, Future, LocalCluster, get_client, get_worker, wait

from upcl.core.errors import UserError
from upcl.research.grid import GridRun

from .base import ExecutorOptions, RunHandle, State
from .remote import RemoteJob, RemoteResult, folder_marker, remote_job

CONFIG = {"distributed.scheduler.allowed-failures": 20}  # deaths of workers under one run, after which it is given up

CONNECT_SECONDS = 20


def execute(job: RemoteJob, stop_event: str) -> RemoteResult:
    """Execute a run in a worker, until it ends or the caller sets an event.

    Args:
        job: the run.
        stop_event: name of the event.

    Example:
        >>> execute(job, "stop")  # doctest: +SKIP
        RemoteResult(exit_code=0, output='no output', files={})
    """
    worker, key = get_worker(), get_worker().get_current_task()
    event = Event(stop_event, client=get_client())
    worker.log_event(stop_event, str(key))

    def is_unwanted() -> bool:
        """Whether the caller has stopped the grid, or is gone: the scheduler then forgets its runs."""
        task = worker.state.tasks.get(key)
        return event.is_set() or task is None or task.state in ("cancelled", "released", "forgotten")

    return job.execute(is_unwanted)


@dataclass
class DaskRun:
    """A run that a dask scheduler has accepted.

    Args:
        future: what stands for its result.
        backend: the cluster.
        folder: the run's folder.

    Example:
        >>> DaskRun(future, backend, folder).state()  # doctest: +SKIP
        'waiting'
    """

    future: Future[RemoteResult]
    backend: DaskBackend
    folder: Path

    def state(self) -> State:
        """Whether it waits for a worker, runs, or has ended; what it sent back is then stored."""
        if not self.future.done():
            return "running" if self.future.key in self.backend.started() else "waiting"
        if self.future.status == "finished":
            self.future.result().store(self.folder)
        return "ended"

    def error(self) -> str:
        """The exit code and the last line of the output, or what went wrong on the cluster."""
        if self.future.status == "finished":
            result = self.future.result()
            return f"exit code {result.exit_code}: {result.output}"
        if self.future.status == "error":
            return f"{type(self.future.exception()).__name__}: {self.future.exception()}"
        return f"dask reports: {self.future.status}"

    def is_busy(self) -> bool:
        """Whether another process works on the run."""
        return self.future.status == "finished" and self.future.result().is_busy

    def stop(self) -> None:
        """Ask all runs of the grid to end."""
        self.backend.stop()

    def join(self, seconds: float) -> None:
        """Wait until the run has ended, then give it up.

        Args:
            seconds: how long to wait.
        """
        if self.future.key in self.backend.started():
            with suppress(TimeoutError):
                wait([self.future], timeout=seconds)
        self.state()  # stores what it sent back
        self.future.cancel()


class DaskBackend:
    """Submits runs to a dask scheduler, which decides how many run at a time.

    Args:
        client: the connection.
        options: where and how to execute runs.
        marker: what `folder_marker` made.
        threads: number of threads of each run; None leaves it to the workers.

    Example:
        >>> DaskBackend(client, options, marker, None).slots is None  # doctest: +SKIP
        True
    """

    slots = None

    def __init__(self, client: Client, options: ExecutorOptions, marker: Path, threads: int | None) -> None:
        self.client, self.options, self.marker, self.threads = client, options, marker, threads
        self.event = f"upcl-stop-{uuid.uuid4().hex}"
        self._started: set[Any] = set()
        self._asked = -math.inf

    def start(self, runs: Sequence[GridRun]) -> list[RunHandle]:
        """Submit runs, in order of priority.

        Args:
            runs: the runs.
        """
        resources = {"GPU": self.options.gpus} if self.options.gpus else None
        handles: list[RunHandle] = []
        for place, run in enumerate(runs):
            job = remote_job(run, self.options, self.marker, self.threads)
            key = f"{run.folder.name}-{uuid.uuid4().hex}"
            future = self.client.submit(
                execute, job, self.event, key=key, pure=False, resources=resources, priority=-place
            )
            handles.append(DaskRun(future, self, run.folder))
        return handles

    def started(self) -> set[Any]:
        """Keys of the runs that a worker has begun, asked for once per second."""
        if time.monotonic() - self._asked >= 1:
            self._asked = time.monotonic()
            self._started = {key for _, key in self.client.get_events(self.event)}
        return self._started

    def stop(self) -> None:
        """Ask all runs of the grid to end."""
        Event(self.event, client=self.client).set()


@contextmanager
def open_dask(options: ExecutorOptions) -> Iterator[DaskBackend]:
    """Connect to a scheduler, or start workers on this machine.

    Args:
        options: the scheduler's address, or the number of workers.

    Raises:
        UserError: if the scheduler does not answer.

    Example:
        >>> with open_dask(ExecutorOptions(Path("runs"), jobs=2, on="dask")) as backend:  # doctest: +SKIP
        ...     len(backend.client.scheduler_info()["workers"])
        2
    """
    with folder_marker(options) as marker, dask.config.set(CONFIG):
        if options.scheduler:
            try:
                client = Client(options.scheduler, timeout=CONNECT_SECONDS)
            except (OSError, ValueError) as error:
                raise UserError(f"no dask scheduler answers at {options.scheduler}: {error}") from None
            with client:
                backend = DaskBackend(client, options, marker, None)
                try:
                    yield backend
                finally:
                    backend.stop()
            return
        cluster = LocalCluster(
            n_workers=options.jobs,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
        )
        with cluster, Client(cluster) as client:
            yield DaskBackend(client, options, marker, max(1, (os.cpu_count() or 1) // options.jobs))
