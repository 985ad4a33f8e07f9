"""What a back end offers to the loop of a grid, and the choice of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from upcl.core.errors import UserError, unknown_choice
from upcl.research.grid import GridRun
from upcl.research.worker import WorkerJob

State = Literal["waiting", "running", "ended"]
BACKENDS = ("local", "dask", "slurm")


@dataclass(frozen=True)
class ExecutorOptions:
    """Where and how the runs of a grid are executed.

    Args:
        out: folder of the runs.
        jobs: number of runs at a time, of processes on this machine.
        device: where to train.
        data_root: folder that holds data sets.
        on: a name in `BACKENDS`.
        scheduler: address of a dask scheduler; without it, workers are started on this machine.
        gpus: number of GPUs that each run gets.
        slurm: options of Slurm, as `slurm.OPTIONS` lists them.

    Example:
        >>> ExecutorOptions(Path("runs"), jobs=2).device
        'auto'
    """

    out: Path
    jobs: int = 1
    device: str = "auto"
    data_root: Path | None = None
    on: str = "local"
    scheduler: str | None = None
    gpus: int = 0
    slurm: Mapping[str, Any] = field(default_factory=dict)

    def job(self, run: GridRun) -> WorkerJob:
        """What a process executes for a run.

        Args:
            run: the run.
        """
        data_root = self.data_root.resolve() if self.data_root else None
        return WorkerJob(run.job.request, run.folder.resolve(), self.device, data_root)

    def log(self, run: GridRun) -> Path:
        """The file for the output of a run; its folder exists.

        Args:
            run: the run.
        """
        folder = run.folder.resolve().parent / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{run.folder.name}.log"


class RunHandle(Protocol):
    """A run that a back end has accepted.

    Example:
        >>> class Ended:
        ...     def state(self): return "ended"
        ...     def error(self): return "exit code 1"
        ...     def is_busy(self): return False
        ...     def stop(self): pass
        ...     def join(self, seconds): pass
        >>> handle: RunHandle = Ended()
        >>> handle.state()
        'ended'
    """

    def state(self) -> State:
        """Whether it waits for its turn, runs, or has ended; what it sent back is then stored."""
        ...

    def error(self) -> str:
        """Why it ended, if it ended without a record."""
        ...

    def is_busy(self) -> bool:
        """Whether it ended because another process works on the run."""
        ...

    def stop(self) -> None:
        """Ask it to end; it can be resumed."""
        ...

    def join(self, seconds: float) -> None:
        """Wait until it has ended, and enforce that after so many seconds.

        Args:
            seconds: how long to wait.
        """
        ...


class Backend(Protocol):
    """Executes runs.

    Attributes:
        slots: number of runs that may be started at a time; None for all of them.

    Example:
        >>> from upcl.research.backends.local import LocalBackend
        >>> backend: Backend = LocalBackend(ExecutorOptions(Path("runs"), jobs=2))
        >>> backend.slots
        2
    """

    slots: int | None

    def start(self, runs: Sequence[GridRun]) -> list[RunHandle]:
        """Accept runs.

        Args:
            runs: runs that are left.
        """
        ...


def make_backend(options: ExecutorOptions) -> AbstractContextManager[Backend]:
    """Open the back end that the options name.

    Args:
        options: where and how to execute runs.

    Raises:
        UserError: if there is none of this name, or its packages are not installed.

    Example:
        >>> with make_backend(ExecutorOptions(Path("runs"))) as backend:
        ...     backend.slots
        1
    """
    if options.on not in BACKENDS:
        raise unknown_choice("back end", options.on, BACKENDS)
    if options.on != "dask" and options.scheduler:
        raise UserError("--scheduler is the address of a dask scheduler: add --on dask")
    if options.on == "dask" and options.gpus and not options.scheduler:
        raise UserError("--gpus needs workers with GPUs: start them, and name their --scheduler")
    if options.on != "slurm" and options.slurm:
        raise UserError("--slurm has options for Slurm: add --on slurm")
    try:
        return _factory(options.on)(options)
    except ImportError as error:
        raise UserError(f"--on {options.on} needs {error.name}: pip install 'upcl[cluster]'") from None


def _factory(name: str) -> Callable[[ExecutorOptions], AbstractContextManager[Any]]:
    if name == "dask":
        from .dask_cluster import open_dask

        return open_dask
    if name == "slurm":
        from .slurm import open_slurm

        return open_slurm
    from .local import open_local

    return open_local
