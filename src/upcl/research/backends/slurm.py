"""Runs as jobs of Slurm, submitted by submitit: one array per grid; preempted jobs are queued again and resume."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import FailedJobError, UncompletedJobError
from submitit.helpers import DelayedSubmission

from upcl.core.errors import UserError, unknown_choice
from upcl.research.grid import GridRun

from .base import ExecutorOptions, RunHandle, State
from .remote import RemoteJob, RemoteResult, folder_marker, remote_job

OPTIONS = {
    "time": "timeout_min",
    "cpus": "cpus_per_task",
    "memory": "mem_gb",
    "partition": "slurm_partition",
    "account": "slurm_account",
    "qos": "slurm_qos",
    "constraint": "slurm_constraint",
    "array": "slurm_array_parallelism",
    "setup": "slurm_setup",
}
"""Options by name: minutes, cores, gigabytes, four of Slurm's own, jobs at a time, and commands before the run."""

EXECUTOR = "executor"  # "slurm", or "local" for processes of this machine, to try it out
MAX_REQUEUES = 1000  # of a job that reaches its time limit
SIGNAL_SECONDS = 60  # before a job is ended, in which it is queued again
WAITING = ("PENDING", "UNKNOWN", "READY", "REQUEUED", "CONFIGURING")


@dataclass(frozen=True)
class SlurmJob:
    """What a job of Slurm executes.

    Args:
        remote: the run.

    Example:
        >>> SlurmJob(remote)()  # doctest: +SKIP
        RemoteResult(exit_code=0, output='no output', files={})
    """

    remote: RemoteJob

    def __call__(self) -> RemoteResult:
        return self.remote.execute()

    def checkpoint(self) -> DelayedSubmission:
        """Queue the job again; its run continues from its last checkpoint. submitit calls it before a job is ended."""
        return DelayedSubmission(self)


@dataclass
class SlurmRun:
    """A run that Slurm has accepted.

    Args:
        job: the job.
        folder: the run's folder.

    Example:
        >>> SlurmRun(job, folder).state()  # doctest: +SKIP
        'waiting'
    """

    job: submitit.Job[RemoteResult]
    folder: Path

    def state(self) -> State:
        """Whether it is queued, runs, or has ended; what it sent back is then stored."""
        if not self.job.done():
            return "waiting" if self.job.state in WAITING else "running"
        result = self._result
        if isinstance(result, RemoteResult):
            result.store(self.folder)
        return "ended"

    def error(self) -> str:
        """The exit code and the last line of the output, or what went wrong with the job."""
        result = self._result
        if isinstance(result, RemoteResult):
            return f"exit code {result.exit_code}: {result.output}"
        return (
            f"job {self.job.job_id} {self.job.state}: {str(result).strip().splitlines()[-1]} ({self.job.paths.stderr})"
        )

    def is_busy(self) -> bool:
        """Whether another process works on the run."""
        result = self._result
        return isinstance(result, RemoteResult) and result.is_busy

    def stop(self) -> None:
        """Cancel the job."""
        self.job.cancel(check=False)

    def join(self, seconds: float) -> None:
        """Nothing to wait for: Slurm ends the job.

        Args:
            seconds: not used.
        """

    @cached_property
    def _result(self) -> RemoteResult | Exception:
        """What the job that has ended sent back; submitit waits 15 seconds for a result that does not come."""
        try:
            return self.job.result()
        except (FailedJobError, UncompletedJobError) as error:
            return error


class SlurmBackend:
    """Submits the runs of a grid as one array of jobs.

    Args:
        executor: submitit's executor.
        options: where and how to execute runs.
        marker: what `folder_marker` made.

    Example:
        >>> SlurmBackend(executor, options, marker).slots is None  # doctest: +SKIP
        True
    """

    slots = None

    def __init__(self, executor: submitit.AutoExecutor, options: ExecutorOptions, marker: Path) -> None:
        self.executor, self.options, self.marker = executor, options, marker

    def start(self, runs: Sequence[GridRun]) -> list[RunHandle]:
        """Submit runs.

        Args:
            runs: the runs.
        """
        jobs = []
        try:
            with self.executor.batch():
                for run in runs:
                    jobs.append(self.executor.submit(SlurmJob(remote_job(run, self.options, self.marker))))  # noqa: PERF401
        except FailedJobError as error:
            raise UserError(f"sbatch refused the jobs: {str(error).strip().splitlines()[-1]}") from None
        return [SlurmRun(job, run.folder) for job, run in zip(jobs, runs, strict=True)]


def slurm_parameters(options: Mapping[str, Any], gpus: int) -> dict[str, Any]:
    """The parameters of submitit for options of Slurm.

    Args:
        options: values by a name in `OPTIONS`.
        gpus: number of GPUs of each run.

    Raises:
        UserError: if an option is unknown, or not a number where it must be one.

    Example:
        >>> slurm_parameters({"time": "60", "partition": "gpu"}, gpus=1)
        {'timeout_min': 60, 'slurm_partition': 'gpu', 'gpus_per_node': 1}
    """
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name == EXECUTOR:
            continue
        if name not in OPTIONS:
            raise unknown_choice("option of Slurm", name, (*OPTIONS, EXECUTOR))
        if name in ("time", "cpus", "memory", "array"):
            if not str(value).isdigit():
                raise UserError(f"--slurm {name}={value}: expected a whole number")
            value = int(value)
        found[OPTIONS[name]] = [value] if name == "setup" and isinstance(value, str) else value
    return {**found, **({"gpus_per_node": gpus} if gpus else {})}


@contextmanager
def open_slurm(options: ExecutorOptions) -> Iterator[SlurmBackend]:
    """Submit runs to Slurm from one of its login nodes.

    Args:
        options: options of Slurm; the folder of the runs must be one that all nodes share.

    Raises:
        UserError: if there is no Slurm here, or an option is unknown.

    Example:
        >>> options = ExecutorOptions(Path("runs"), on="slurm", slurm={"executor": "local"})
        >>> with open_slurm(options) as backend:  # doctest: +SKIP
        ...     backend.executor.cluster
        'local'
    """
    parameters = slurm_parameters(options.slurm, options.gpus)
    cluster = str(options.slurm.get(EXECUTOR, "slurm"))
    with folder_marker(options) as marker:
        try:
            executor = submitit.AutoExecutor(
                folder=options.out.resolve() / "slurm" / "%j", cluster=cluster, slurm_max_num_timeout=MAX_REQUEUES
            )
        except (RuntimeError, ValueError) as error:
            raise UserError(
                f"jobs cannot be submitted here: {error}; use a login node of Slurm, or try --slurm executor=local"
            ) from None
        executor.update_parameters(name="upcl", slurm_signal_delay_s=SIGNAL_SECONDS, **parameters)
        yield SlurmBackend(executor, options, marker)
