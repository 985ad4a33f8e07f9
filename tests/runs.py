"""Tiny runs for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from upcl.data import Dataset
from upcl.methods import MethodClass
from upcl.research.config import Request
from upcl.research.record import Record
from upcl.research.run import ProgressCallback, RunProgress, run

STREAM = "synthetic:classes=6,train=10,test=5"
QUICK: dict[str, Any] = {"tasks": 3, "memory": "12", "epochs": 2}


def quick_run(
    method: str | MethodClass = "finetune",
    data: str | Dataset = STREAM,
    *,
    out: Path | None = None,
    resume: bool = False,
    on_progress: ProgressCallback | None = None,
    save_seconds: float = 30,
    **request: Any,
) -> Record:
    """A run of seconds: three tasks of two classes, unless the request says otherwise."""
    wanted = Request(method=method, data=data, **{**QUICK, **request})
    return run(wanted, out=out, resume=resume, on_progress=on_progress, save_seconds=save_seconds, device="cpu")


class Stop(BaseException):
    """Stands for a kill: nothing catches it."""


def stop_after(last: int) -> Callable[[RunProgress], None]:
    """A callback that stops a run after so many reports."""
    reports = []

    def stop(progress: RunProgress) -> None:
        reports.append(progress)
        if len(reports) == last:
            raise Stop

    return stop
