from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from upcl.research.config import Request
from upcl.research.worker import WorkerJob, start_worker

TINY: dict[str, Any] = {"data": "synthetic:classes=4,train=8,test=4", "tasks": 2, "epochs": 2, "memory": "4"}


def test_worker_exits_when_its_parent_is_killed(tmp_path: Path) -> None:
    """A parent that is killed with SIGKILL cannot stop its workers; they notice by themselves."""
    script = (
        "import sys, time\nfrom pathlib import Path\n"
        "from upcl.research.config import Request\nfrom upcl.research.worker import WorkerJob, start_worker\n"
        f"job = WorkerJob(Request(**{ {**TINY, 'epochs': 2000}!r}), Path({str(tmp_path / 'run')!r}), 'cpu')\n"
        "print(start_worker(job, threads=1).pid, flush=True)\ntime.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        worker = int(parent.stdout.readline())
        deadline = time.monotonic() + 100
        while not (tmp_path / "run" / "events.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        parent.kill()
    while _is_running(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_running(worker)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return not (state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z")
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_worker_reports_success_and_interrupts_by_its_exit_code(tmp_path: Path) -> None:
    with start_worker(WorkerJob(Request(method="finetune", **TINY), tmp_path / "run", "cpu")) as process:
        assert process.wait(200) == 0
    assert json.loads((tmp_path / "run" / "record.json").read_text())["finished"]
    with start_worker(
        WorkerJob(Request(method="finetune", **{**TINY, "epochs": 2000}), tmp_path / "b", "cpu")
    ) as process:
        deadline = time.monotonic() + 100
        while not (tmp_path / "b" / "events.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(100) in (130, -signal.SIGINT)  # CPython may end itself by the signal
