"""What a run costs: nothing is repeated or piles up, and faster ways of computing are recorded."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.runs import quick_run
from upcl.research.config import Request
from upcl.research.run import RunProgress, run
from upcl.training.evaluate import evaluate

TINY = "synthetic:classes=4,size=8,train=12,test=4"


def test_each_task_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(*args: Any) -> Any:
        calls.append(args[2])
        return evaluate(*args)

    monkeypatch.setattr("upcl.research.run.evaluate", counted)
    quick_run("upcl", TINY, tasks=2, epochs=3)
    assert calls == [2, 4]


def live_bytes() -> int:
    gc.collect()
    storages = {
        t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
        for found in gc.get_objects()
        if type(found) in (Tensor, nn.Parameter)
        for t in ((found.indices(), found.values()) if found.is_sparse else (found,))
    }
    return sum(storages.values())


@pytest.mark.parametrize("method", ["upcl", "lucir"])
def test_many_tasks_hold_no_more_than_what_is_stored(method: str) -> None:
    held: dict[int, int] = {}

    def on_progress(progress: RunProgress) -> None:
        if progress.stage == "done" and progress.task in (4, 15):
            held[progress.task] = live_bytes()

    options = {"recipe.min_steps": 0}
    stream = "synthetic:classes=16,size=8,train=4,test=1"
    record = quick_run(method, stream, tasks=16, epochs=1, memory="16", options=options, on_progress=on_progress)
    assert all(peak and peak > 0 for peak in record.peak_memory_mb)
    per_class = 3 * 4 * 128 * 4 + 192 * 4  # rows of the head, its centroid and prototype, momentum; a few images
    assert held[15] - held[4] <= 11 * per_class


@pytest.mark.parametrize("method", ["finetune", "upcl"])
def test_records_do_not_grow_with_the_square_of_the_classes(method: str, tmp_path: Path) -> None:
    stream = "synthetic:classes=1500,size=8,train=1,test=1"
    quick_run(method, stream, tasks=2, epochs=1, memory="1500", options={"recipe.min_steps": 0}, out=tmp_path / "run")
    assert (tmp_path / "run" / "record.json").stat().st_size < 500_000


def test_failed_compilation_is_noted_and_the_run_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no compiler\nand a long story")

    monkeypatch.setattr(torch, "compile", fail)
    record = run(Request(method="upcl", data=TINY, tasks=2, epochs=1), compiled=True)
    assert record.finished and record.environment["compiled"] is False
    assert any(note.startswith("not compiled") and "no compiler" in note for note in record.notes)
    assert not any("long story" in note for note in record.notes)


def test_precision_is_part_of_the_identity() -> None:
    full, half = (quick_run("upcl", TINY, tasks=2, epochs=1, precision=p) for p in ("float32", "bfloat16"))
    assert full.config_digest != half.config_digest
    assert full.weights_sha256 != half.weights_sha256
