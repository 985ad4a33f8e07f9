"""A grid that is killed ends with the same page as one that is not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.research.altered import alter_run
from upcl.research.grid import read_grid
from upcl.research.report.compose import report_on_runs
from upcl.research.report.load import read_runs
from upcl.research.report.page import render_page
from upcl.research.run import run

ENVIRONMENT = {"torch": "2", "device": "cpu", "threads": 1}


def page_without_measurements(folder: Path) -> str:
    """The page with equal times, memory and environment."""
    measured: dict[str, Any] = {"seconds": [1.0] * 2, "peak_memory_mb": [1.0] * 2, "environment": ENVIRONMENT}
    return render_page(report_on_runs([alter_run(stored, **measured) for stored in read_runs([folder])]))


def num_events(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*/events.jsonl"))


def test_killed_grid_has_the_same_page(tmp_path: Path) -> None:
    same = {"data": "synthetic:classes=4,train=8,test=4", "tasks": 2, "epochs": 6, "memory": "4"}
    (tmp_path / "grid.yaml").write_text(json.dumps({"same": same, "vary": {"method": ["upcl", "icarl"]}}))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def command(out: str) -> list[str]:
        words = ["grid", str(tmp_path / "grid.yaml"), "--jobs", "2", "--out", str(tmp_path / out)]
        return [sys.executable, "-m", "upcl", *words]

    for job in read_grid(tmp_path / "grid.yaml").jobs:
        run(job.request, out=tmp_path / "undisturbed" / job.name)
    process = subprocess.Popen(command("killed"), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 100
    while process.poll() is None and num_events(tmp_path / "killed") < 9 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert process.poll() is None, "the grid ended before it could be killed"
    process.send_signal(signal.SIGKILL)
    process.wait()
    subprocess.run(command("killed"), env=environment, check=True, capture_output=True, timeout=200)
    assert page_without_measurements(tmp_path / "killed") == page_without_measurements(tmp_path / "undisturbed")
