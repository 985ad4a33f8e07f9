from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from upcl.core.errors import UserError
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
    assert copied.events == [json.loads(line) for line in lines[:2]]


def test_run_without_a_sketch_has_none(stored_runs: list[StoredRun], tmp_path: Path) -> None:
    assert StoredRun(tmp_path, stored_runs[2].record).sketch is None


def test_damaged_sketch_is_refused(stored_runs: list[StoredRun], tmp_path: Path) -> None:
    content = bytearray((stored_runs[2].folder / "sketch.npz").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (tmp_path / "sketch.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"sketch\.npz is damaged"):
        _ = StoredRun(tmp_path, stored_runs[2].record).sketch
