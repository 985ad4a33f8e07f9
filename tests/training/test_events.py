from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from upcl.training.events import Event, read_events

LINE = {
    "task": 1,
    "stage": 0,
    "epoch": 2,
    "name": "train",
    "losses": {"ce": 1.5},
    "assignment": [1, 0],
    "alignment": 0.9,
}


def read(path: Path, *lines: str) -> list[Event]:
    (path / "events.jsonl").write_text("\n".join(lines))
    return [event for _, event in read_events(path / "events.jsonl")]


def test_events_are_read_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text(json.dumps(LINE) + "\n")
    ((line, event),) = read_events(tmp_path / "events.jsonl")
    assert line == json.dumps(LINE)
    assert (event.position, event.losses, event.assignment, event.alignment) == ((1, 0, 2), {"ce": 1.5}, [1, 0], 0.9)


@pytest.mark.parametrize(
    "change",
    [
        {"task": None},
        {"task": -1},
        {"epoch": "x"},
        {"losses": 3},
        {"losses": [1.5]},
        {"losses": {"ce": None}},
        {"losses": {"ce": float("nan")}},
        {"losses": {"ce": 10**400}},
        {"assignment": 1},
        {"assignment": [None]},
        {"alignment": "x"},
    ],
)
def test_lines_of_other_types_are_skipped(tmp_path: Path, change: dict[str, Any]) -> None:
    assert len(read(tmp_path, json.dumps(LINE), json.dumps({**LINE, **change}), json.dumps(LINE))) == 2


@pytest.mark.parametrize("line", ["{", "[]", "3", "null", "9" * 5000, "[" * 10_000 + "]" * 10_000, '{"note": "mine"}'])
def test_lines_of_other_forms_are_skipped(tmp_path: Path, line: str) -> None:
    assert len(read(tmp_path, line, json.dumps(LINE))) == 1
