"""One run in a process of its own: it receives a pickled job on standard input and exits when its parent does."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from upcl.core.allocation import keep_freed_memory
from upcl.core.errors import BusyError, UpclError
from upcl.training.world import LAUNCHER_VARIABLES

from .config import Request
from .run import SAVE_SECONDS, run

BUSY = 75  # exit code: try again later


@dataclass(frozen=True)
class WorkerJob:
    """What a worker process runs; an unfinished run in `out` is resumed.

    Args:
        request: what to run.
        out: the run's folder.
        device: where to train.
        data_root: folder that holds data sets.
        save_seconds: time between checkpoints within a task.

    Example:
        >>> job = WorkerJob(Request(method="icarl", data="digits"), Path("runs/example"))
        >>> pickle.loads(pickle.dumps(job)) == job  # as it is sent to the process
        True
    """

    request: Request
    out: Path
    device: str = "auto"
    data_root: Path | None = None
    save_seconds: float = SAVE_SECONDS


def start_worker(job: WorkerJob, log: Path | None = None, threads: int | None = None) -> subprocess.Popen[bytes]:
    """Start a process that runs a job. It exits if this process ends, however it ends.

    Args:
        job: what to run.
        log: file for the output of the process; without it the output is discarded.
        threads: number of threads; without it, torch decides.

    Returns:
        The process; its exit code is 0 when the run has finished.

    Example:
        >>> job = WorkerJob(Request(data="digits"), Path("runs/example"))
        >>> start_worker(job, log=Path("run.log"), threads=1).wait()  # doctest: +SKIP
        0
    """
    env = {name: value for name, value in os.environ.items() if name not in LAUNCHER_VARIABLES}
    env["OMP_WAIT_POLICY"] = "PASSIVE"
    if threads:
        env |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    with open(log or os.devnull, "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=env,
            start_new_session=True,
        )
    assert process.stdin
    process.stdin.write(pickle.dumps(job))
    process.stdin.flush()  # left open: its end tells the worker that this process has ended
    return process


def run_from_stdin() -> int:
    """Run the job that arrives on standard input.

    Returns:
        The exit code: 0 after a finished run, 1 after an error, 130 after an interrupt, `BUSY` if another process works
        on the run.

    Example:
        >>> run_from_stdin()  # in a process that `start_worker` started  # doctest: +SKIP
        0
    """
    job: WorkerJob = pickle.load(sys.stdin.buffer)
    keep_freed_memory()
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes its background jobs ignore it
    try:
        run(
            job.request,
            out=job.out,
            resume=True,
            device=job.device,
            data_root=job.data_root,
            save_seconds=job.save_seconds,
        )
    except UpclError as error:
        print(f"error: {error}", file=sys.stderr)
        return BUSY if isinstance(error, BusyError) else 1
    except KeyboardInterrupt:
        return 130
    return 0


def _exit_with_parent() -> None:
    """Wait for the end of standard input, then exit at once: a run can be stopped at any moment without loss.

    It reads the file descriptor itself: a thread inside of a buffered reader would abort the interpreter's shutdown.
    """
    while os.read(0, 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    from upcl.research import worker  # under its own name, so that the pickled job finds its class

    sys.exit(worker.run_from_stdin())
