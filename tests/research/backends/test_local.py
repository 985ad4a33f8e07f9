from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from upcl.research.backends.local import LocalRun, log_tail


def start(code: str, log: Path) -> LocalRun:
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return LocalRun(process, log)


def test_the_last_line_of_the_log_explains_a_failure(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("first\nerror: no such data\n\n")
    run = start("exit(3)", log)
    while run.state() == "running":
        time.sleep(0.05)
    assert run.process.stdout
    run.process.stdout.close()
    assert run.error() == f"exit code 3: error: no such data ({log})"
    assert log_tail(tmp_path / "missing.log") == "no output"


def test_a_process_that_ignores_the_interrupt_is_killed(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(2, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
    run = start(code, tmp_path / "log")
    assert run.process.stdout and run.process.stdout.readline() == b"ready\n"
    run.stop()
    run.join(0.2)
    run.process.stdout.close()
    assert run.state() == "ended" and run.process.returncode == -9
