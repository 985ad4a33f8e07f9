"""A run on another host: in the folder that both hosts share, or in a temporary one whose results are sent back."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from upcl.core.files import write_atomic
from upcl.research.grid import GridRun
from upcl.research.worker import BUSY, WorkerJob, start_worker

from .base import ExecutorOptions
from .local import LocalRun, log_tail

POLL_SECONDS = 0.5
STOP_SECONDS = 20.0
REPORTED = ("config.json", "events.jsonl", "sketch.npz", "record.json")  # what reports need; the record comes last


@dataclass(frozen=True)
class RemoteResult:
    """What a run sends back.

    Args:
        exit_code: exit code of its process.
        output: the last line of its output.
        files: its files, if the caller does not see its folder.

    Example:
        >>> RemoteResult(0, "", {}).exit_code
        0
    """

    exit_code: int
    output: str
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def is_busy(self) -> bool:
        """Whether another process works on the run."""
        return self.exit_code == BUSY

    def store(self, folder: Path) -> None:
        """Write the files that were sent back.

        Args:
            folder: the run's folder.
        """
        for name, content in self.files.items():
            folder.mkdir(parents=True, exist_ok=True)
            write_atomic(folder / name, content)


@dataclass(frozen=True)
class RemoteJob:
    """A run that any host with this package can execute, in a process of its own.

    Args:
        job: what to run.
        log: file for the output of the process.
        marker: a file in the caller's folder; a host that sees it shares the folder.
        threads: number of threads; None leaves it to the host.

    Example:
        >>> from upcl.research.config import Request
        >>> job = WorkerJob(Request(data="digits"), Path("runs/a"))
        >>> RemoteJob(job, Path("a.log"), marker=Path("missing"), threads=1).execute().exit_code  # doctest: +SKIP
        0
    """

    job: WorkerJob
    log: Path
    marker: Path
    threads: int | None = None

    def execute(self, stopped: Callable[[], bool] = lambda: False) -> RemoteResult:
        """Run it here.

        Args:
            stopped: whether the caller wants it to end.
        """
        if self.marker.exists():
            return self._execute(self.job, self.log, stopped)
        with tempfile.TemporaryDirectory(prefix="upcl-") as folder:
            out = Path(folder) / self.job.out.name
            result = self._execute(dataclasses.replace(self.job, out=out), Path(folder) / "log", stopped)
            files = {name: (out / name).read_bytes() for name in REPORTED if (out / name).is_file()}
            return dataclasses.replace(result, files=files if result.exit_code == 0 else {})

    def _execute(self, job: WorkerJob, log: Path, stopped: Callable[[], bool]) -> RemoteResult:
        threads = self.threads or (None if "OMP_NUM_THREADS" in os.environ else _num_cores())
        run = LocalRun(start_worker(job, log, threads), log)
        while run.state() == "running":
            if stopped():
                run.stop()
                run.join(STOP_SECONDS)
            time.sleep(POLL_SECONDS)
        return RemoteResult(run.process.returncode, log_tail(log))


def _num_cores() -> int:
    """The cores that this process may use, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def folder_marker(options: ExecutorOptions) -> Iterator[Path]:
    """A file in the folder of the runs by which hosts recognise that they share it.

    Args:
        options: the folder.

    Example:
        >>> with folder_marker(ExecutorOptions(Path(tempfile.mkdtemp()))) as marker:
        ...     marker.exists()
        True
    """
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    marker = out / f".shared-{uuid.uuid4().hex}"
    marker.touch()
    try:
        yield marker
    finally:
        marker.unlink(missing_ok=True)


def remote_job(run: GridRun, options: ExecutorOptions, marker: Path, threads: int | None = None) -> RemoteJob:
    """The job of a run of a grid.

    Args:
        run: the run.
        options: where and how it is executed.
        marker: what `folder_marker` made.
        threads: number of threads; None leaves it to the host.

    Example:
        >>> from upcl.research.config import Request
        >>> from upcl.research.grid import Job
        >>> options = ExecutorOptions(Path(tempfile.mkdtemp()))
        >>> run = GridRun(Job("seed0", Request()), options.out / "seed0")
        >>> remote_job(run, options, options.out / ".shared").log.name
        'seed0.log'
    """
    return RemoteJob(options.job(run), options.log(run), marker, threads)
