from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from upcl.research import verify
from upcl.research.config import Request
from upcl.research.record import Record

REQUEST = Request(method="finetune", data="synthetic:classes=4,train=8,test=4", tasks=2, epochs=30)


def test_killed_and_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    events: list[str] = []
    check = verify.verify_resume(REQUEST, tmp_path, kills=1, on_event=events.append)
    assert check.differences == []
    assert (check.kills, len(check.weights_sha256)) == (1, 64)
    assert any("killed process" in event for event in events)


def test_difference_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Record.reproducible_part
    parts = iter([{"weights_sha256": "a"}, {"weights_sha256": "b"}])
    monkeypatch.setattr(Record, "reproducible_part", lambda self: {**real(self), **next(parts)})
    short = dataclasses.replace(REQUEST, epochs=1)
    check = verify.verify_resume(short, tmp_path, kills=0)
    assert check.differences == ["weights_sha256: stored 'a', requested 'b'"]
