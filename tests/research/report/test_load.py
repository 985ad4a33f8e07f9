from __future__ import annotations

import copy
import functools
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from upcl.core.errors import UserError
from upcl.research.record import Record
from upcl.research.report.compose import report_on_runs
from upcl.research.report.load import StoredRun, read_runs


def test_runs_are_found_below_a_folder_and_read_once(runs_folder: Path) -> None:
    runs = read_runs([runs_folder, runs_folder / "upcl-0"])
    assert [run.folder.name for run in runs] == ["icarl-0", "icarl-1", "upcl-0", "upcl-1"]


def test_order_of_the_paths_is_kept(runs_folder: Path) -> None:
    runs = read_runs([runs_folder / "upcl-0" / "record.json", runs_folder / "icarl-0"])
    assert [run.folder.name for run in runs] == ["upcl-0", "icarl-0"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "contains no run"),
        ("{", "not JSON"),
        ('{"schema": 99}', "schema 99"),
        ("[]", "schema"),
        ('{"schema": 2}', "'finished'"),
    ],
)
def test_folders_without_a_valid_run_are_refused(content: str | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "record.json").write_text(content)
    with pytest.raises(UserError, match=message):
        read_runs([tmp_path])


def test_paths_that_are_no_folders_are_refused(runs_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="missing does not exist"):
        read_runs([tmp_path / "missing"])
    with pytest.raises(UserError, match="is a file"):
        read_runs([runs_folder / "upcl-0" / "config.json"])


def test_copies_of_a_run_are_skipped_and_noted(runs_folder: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(runs_folder / "upcl-0", tmp_path / name)
    notes: list[str] = []
    (only,) = read_runs([tmp_path], notes)
    assert only.folder.name == "one"
    assert notes == [f"skipped: the same run as {tmp_path / 'one'}: {tmp_path / 'two'}"]


def test_runs_without_a_finished_task_do_not_block_others(runs_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(runs_folder / "upcl-0", tmp_path / "good")
    shutil.copytree(runs_folder / "upcl-1", tmp_path / "started")
    path = tmp_path / "started" / "record.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "seconds": [], "finished": False}))
    notes: list[str] = []
    assert [run.folder.name for run in read_runs([tmp_path], notes)] == ["good"]
    assert notes == ["skipped: no finished task yet: started"]
    with pytest.raises(UserError, match="none of the 1 runs"):
        read_runs([tmp_path / "started"])


def test_truncated_and_foreign_events_are_skipped(stored_runs: list[StoredRun], tmp_path: Path) -> None:
    lines = (stored_runs[2].folder / "events.jsonl").read_text().splitlines()
    (tmp_path / "events.jsonl").write_text("\n".join([lines[0], "[1]", '{"note": "mine"}', lines[1], lines[2][:20]]))
    copied = StoredRun(tmp_path, stored_runs[2].record)
    assert copied.events == stored_runs[2].events[:2]


def test_run_without_a_sketch_has_none(stored_runs: list[StoredRun], tmp_path: Path) -> None:
    assert StoredRun(tmp_path, stored_runs[2].record).sketch is None


def test_damaged_sketch_is_refused(stored_runs: list[StoredRun], tmp_path: Path) -> None:
    content = bytearray((stored_runs[2].folder / "sketch.npz").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (tmp_path / "sketch.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"sketch\.npz is damaged"):
        _ = StoredRun(tmp_path, stored_runs[2].record).sketch


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("features", lambda value: value[:, :-1]),
        ("features", lambda value: value * np.nan),
        ("features", lambda value: value.astype(np.int64)),
        ("features", lambda value: value[0]),
        ("vectors", lambda value: value[1:]),
        ("labels", lambda value: value + 1000),
        ("labels", lambda value: value[1:]),
        ("labels", lambda value: value.astype(float)),
        ("exemplars", lambda value: value[:, :, 0]),
        ("exemplars", lambda value: value[:, :0]),
        ("exemplar_labels", lambda value: value - 1000),
        ("errors", lambda value: value.astype(np.int32)),
        ("error_taken", lambda value: value + 1000),
        ("error_labels", lambda value: np.append(value, 0)),
    ],
)
def test_altered_sketch_is_refused(
    stored_runs: list[StoredRun], tmp_path: Path, name: str, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    sketch = stored_runs[2].sketch
    assert sketch is not None
    np.savez(tmp_path / "sketch.npz", allow_pickle=False, **{**sketch, name: change(sketch[name])})
    with pytest.raises(UserError, match=r"sketch\.npz is damaged"):
        _ = StoredRun(tmp_path, stored_runs[2].record).sketch


WRONG_VALUES = {
    "null": "null",
    "text": '"x"',
    "number": "7",
    "negative": "-3.5",
    "huge": f"1{'0' * 400}",
    "not a number": "NaN",
    "list": "[null]",
    "nested": "[" * 10_000 + "]" * 10_000,
}


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every value inside of a JSON value; of a list, only the last item."""
    items: list[tuple[str | int, Any]] = list(value.items()) if isinstance(value, dict) else []
    if isinstance(value, list) and value:
        items = [(-1, value[-1])]
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def altered(value: Any, path: tuple[str | int, ...]) -> Iterator[str]:
    """The JSON value as text, with each wrong value in one place."""
    content = copy.deepcopy(value)
    functools.reduce(lambda part, key: part[key], path[:-1], content)[path[-1]] = "HERE"
    text = json.dumps(content)
    return (text.replace('"HERE"', wrong) for wrong in WRONG_VALUES.values())


def test_every_altered_record_is_refused_or_can_be_reported(stored_runs: list[StoredRun], tmp_path: Path) -> None:
    content = stored_runs[2].record.to_json()
    num_refused, accepted = 0, {}
    for path in places(content):
        for text in altered(content, path):
            (tmp_path / "record.json").write_text(text)
            try:
                accepted[path] = Record.read(tmp_path)
            except UserError:
                num_refused += 1
    assert num_refused > 5 * len(accepted) > 0
    for record in accepted.values():
        assert report_on_runs([StoredRun(tmp_path, record)]).sections


def test_every_altered_event_is_skipped_or_can_be_reported(stored_runs: list[StoredRun], tmp_path: Path) -> None:
    lines = (stored_runs[2].folder / "events.jsonl").read_text().splitlines()
    texts = [text for path in places(json.loads(lines[-1])) for text in altered(json.loads(lines[-1]), path)]
    (tmp_path / "events.jsonl").write_text("\n".join([*lines, *texts]))
    run = StoredRun(tmp_path, stored_runs[2].record)
    assert len(lines) < len(run.events) < len(lines) + len(texts) / 2
    assert report_on_runs([run]).sections
