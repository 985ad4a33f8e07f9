from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from upcl.core.errors import CheckpointError, UserError
from upcl.core.identity import json_sha256
from upcl.core.lease import LostLeaseError
from upcl.training.checkpoints import save_checkpoint
from upcl.training.run_folder import RunFolder


@dataclass(frozen=True)
class Config:
    value: int = 1

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value}

    def digest(self) -> str:
        return json_sha256(self.to_json())


def run_folder(path: Path, value: int = 1, *, resume: bool = True, save_seconds: float = 30) -> RunFolder:
    return RunFolder(path, Config(value), resume=resume, save_seconds=save_seconds)


def test_new_folder_holds_config_and_empty_events(tmp_path: Path) -> None:
    with run_folder(tmp_path / "run", resume=False):
        pass
    assert json.loads((tmp_path / "run" / "config.json").read_text()) == {"value": 1}
    assert (tmp_path / "run" / "events.jsonl").read_text() == ""


def test_lock_is_released_after_an_error(tmp_path: Path) -> None:
    with run_folder(tmp_path / "run"):
        pass
    with pytest.raises(UserError, match=r"value: stored 1, requested 2"), run_folder(tmp_path / "run", 2):
        raise AssertionError("another config was accepted")
    with run_folder(tmp_path / "run"), pytest.raises(UserError, match="in use"), run_folder(tmp_path / "run"):
        raise AssertionError("two processes share the folder")
    with run_folder(tmp_path / "run"):
        assert (tmp_path / "run" / ".lease").exists()
    assert not (tmp_path / "run" / ".lease").exists(), "the claim is given up"


def test_a_process_that_was_taken_over_writes_nothing(tmp_path: Path) -> None:
    with run_folder(tmp_path / "run") as folder:
        (tmp_path / "run" / ".lease").unlink()
        with pytest.raises(LostLeaseError):
            folder.save_task(0, {})
        with pytest.raises(LostLeaseError):
            folder.log({"task": 0})
        assert list((tmp_path / "run" / "checkpoints").iterdir()) == []
        assert (tmp_path / "run" / "events.jsonl").read_text() == ""


def test_task_checkpoint_supersedes_earlier_ones_only(tmp_path: Path) -> None:
    with run_folder(tmp_path) as folder:
        assert folder.last_task(3) is None
        folder.save_stage(0, 0, {"value": torch.ones(2)})
        folder.save_task(0, {"weights": torch.zeros(3)})
        folder.save_stage(1, 0, {"epoch": 4})
        (tmp_path / "checkpoints" / ".nfs0001").write_text("not ours")
        assert folder.open_stage(0, 0) is None
        stage = folder.open_stage(1, 0)
        assert stage and stage["epoch"] == 4
        state = folder.last_task(3)
        assert state and torch.equal(state["weights"], torch.zeros(3))
        folder.save_task(1, {"weights": torch.ones(3)})
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == [".nfs0001", "task-1.pt"]


def test_only_our_own_leftovers_are_removed(tmp_path: Path) -> None:
    with run_folder(tmp_path) as folder:
        folder.save_task(0, {})
    left = tmp_path / "checkpoints" / ".0123456789ab.0123456789ab.partial"
    (tmp_path / "my.partial.notes").mkdir()
    for path in (left, tmp_path / "thesis.partial"):
        path.write_text("half")
    with run_folder(tmp_path, resume=True):
        pass
    assert not left.exists() and (tmp_path / "thesis.partial").exists() and (tmp_path / "my.partial.notes").is_dir()


def test_checkpoint_under_another_name_is_refused(tmp_path: Path) -> None:
    with run_folder(tmp_path) as folder:
        folder.save_task(0, {})
        (tmp_path / "checkpoints" / "task-0.pt").rename(tmp_path / "checkpoints" / "task-1.pt")
        with pytest.raises(CheckpointError, match=r"was written as task-0\.pt"):
            folder.last_task(3)


def test_checkpoint_is_due_after_the_given_time(tmp_path: Path) -> None:
    with run_folder(tmp_path / "a", save_seconds=0) as folder:
        assert folder.is_checkpoint_due
    with run_folder(tmp_path / "b", save_seconds=1e9) as folder:
        assert not folder.is_checkpoint_due


def test_events_from_a_position_on_are_removed(tmp_path: Path) -> None:
    positions = itertools.product(range(2), repeat=3)
    events = [{"task": t, "stage": s, "epoch": e, "losses": {"ce": 1.5}} for t, s, e in positions]
    with run_folder(tmp_path) as folder:
        for event in events:
            folder.log(event)
        with (tmp_path / "events.jsonl").open("a") as file:
            file.write('{"task": 9')
        folder.truncate_events((1, 0, 1))
    kept = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert kept == events[:5]


@pytest.mark.parametrize("content", ["", "{", "[" * 10_000, "9" * 5000, "[" * 500 + "]" * 500])
def test_damaged_config_is_refused(tmp_path: Path, content: str) -> None:
    with run_folder(tmp_path):
        pass
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"config\.json is damaged"), run_folder(tmp_path):
        raise AssertionError("the config was accepted")


@pytest.mark.parametrize("line", ["[1]", "3", '{"task": 0}', '{"task": "x", "stage": 0, "epoch": 0}', "[" * 10_000])
def test_lines_that_are_no_events_are_removed(tmp_path: Path, line: str) -> None:
    event = {"task": 0, "stage": 0, "epoch": 0, "losses": {}}
    with run_folder(tmp_path) as folder:
        (tmp_path / "events.jsonl").write_text(line + "\n")
        folder.log(event)
        folder.truncate_events((9, 0, 0))
    assert (tmp_path / "events.jsonl").read_text() == json.dumps(event) + "\n"


def test_checkpoint_without_its_name_is_refused(tmp_path: Path) -> None:
    with run_folder(tmp_path) as folder:
        save_checkpoint(tmp_path / "checkpoints" / "task-0.pt", {"config_digest": Config().digest()})
        with pytest.raises(CheckpointError, match="was written as None"):
            folder.last_task(3)
