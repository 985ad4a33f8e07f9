from __future__ import annotations

import signal
from pathlib import Path

from tests.research.backends.grids import TINY
from upcl.research.backends import ExecutorOptions
from upcl.research.backends.remote import REPORTED, RemoteJob, RemoteResult, folder_marker
from upcl.research.config import Request
from upcl.research.record import Record
from upcl.research.run import run
from upcl.research.worker import WorkerJob

REQUEST = Request(method="finetune", **TINY)


def test_a_shared_folder_is_written_directly(tmp_path: Path) -> None:
    options = ExecutorOptions(tmp_path / "runs")
    with folder_marker(options) as marker:
        job = RemoteJob(WorkerJob(REQUEST, tmp_path / "runs" / "a", "cpu"), tmp_path / "log", marker, threads=1)
        result = job.execute()
    assert result == RemoteResult(0, "no output", {}) and not marker.exists()
    assert Record.read(tmp_path / "runs" / "a").finished


def test_without_a_shared_folder_the_results_are_sent_back(tmp_path: Path) -> None:
    job = RemoteJob(WorkerJob(REQUEST, tmp_path / "elsewhere" / "a", "cpu"), tmp_path / "log", tmp_path / "missing")
    result = job.execute()
    assert result.exit_code == 0 and sorted(result.files) == sorted(REPORTED)
    assert list(tmp_path.iterdir()) == [], "nothing is written to the caller's paths"
    result.store(tmp_path / "runs" / "a")
    expected = run(REQUEST, device="cpu").reproducible_part()
    assert Record.read(tmp_path / "runs" / "a").reproducible_part() == expected


def test_a_run_that_fails_sends_its_last_words(tmp_path: Path) -> None:
    request = Request(method="finetune", options={"recipe.lr": 1e30}, **TINY)
    result = RemoteJob(WorkerJob(request, tmp_path / "a", "cpu"), tmp_path / "log", tmp_path / "missing").execute()
    assert result.exit_code == 1 and "lower learning rate" in result.output and result.files == {}


def test_a_run_ends_when_the_caller_wants_it(tmp_path: Path) -> None:
    request = Request(method="finetune", **{**TINY, "epochs": 100_000})
    job = RemoteJob(WorkerJob(request, tmp_path / "a", "cpu"), tmp_path / "log", tmp_path, threads=1)
    result = job.execute(lambda: (tmp_path / "a" / "events.jsonl").exists())
    assert result.exit_code in (130, -signal.SIGINT)  # CPython may end itself by the signal
