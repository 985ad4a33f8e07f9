"""Interrupted runs: what they leave behind, and that they continue to the same result."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

import upcl
from tests.runs import STREAM, Stop, quick_run, stop_after
from upcl.core.errors import CheckpointError, UserError
from upcl.core.identity import differences
from upcl.research.run import RunProgress
from upcl.training.checkpoints import load_checkpoint, save_checkpoint


def test_existing_folders_are_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    for resume in (False, True):
        with pytest.raises(UserError, match="not empty and does not hold a run"):
            quick_run("finetune", out=tmp_path, resume=resume)
    with pytest.raises(UserError, match="is a file"):
        quick_run("finetune", out=tmp_path / "precious.txt")
    assert [p.name for p in tmp_path.iterdir()] == ["precious.txt"], "a refusal leaves nothing behind"
    first = quick_run("finetune", out=tmp_path / "run")
    with pytest.raises(UserError, match="--resume"):
        quick_run("finetune", out=tmp_path / "run")
    before = (tmp_path / "run" / "record.json").stat().st_mtime_ns
    assert quick_run("finetune", out=tmp_path / "run", resume=True) == first
    assert (tmp_path / "run" / "record.json").stat().st_mtime_ns == before, "a finished record is not rewritten"


def test_another_config_is_refused_with_the_difference(tmp_path: Path) -> None:
    out = tmp_path / "run"
    quick_run("upcl", out=out)
    with pytest.raises(UserError, match=r"options.tau: stored 0.07, requested 0.2"):
        quick_run("upcl", out=out, resume=True, options={"tau": 0.2})
    with pytest.raises(UserError, match="data_sha256"):
        quick_run("upcl", STREAM + ",seed=9", out=out, resume=True)
    data = upcl.load_dataset(STREAM)
    other = upcl.Dataset(**{**vars(data), "transform": upcl.Transform((0.4,) * 3, (0.25,) * 3)})
    with pytest.raises(UserError, match="transform"):
        quick_run("upcl", other, out=out, resume=True)


def test_two_processes_cannot_share_a_folder(tmp_path: Path) -> None:
    refusals = []

    def second(_: RunProgress) -> None:
        with pytest.raises(UserError, match="in use by another process"):
            quick_run("finetune", out=tmp_path / "run", resume=True)
        refusals.append(True)

    quick_run("finetune", out=tmp_path / "run", on_progress=second)
    assert refusals


def test_repeated_and_truncated_events_are_removed_on_resume(tmp_path: Path) -> None:
    reference, out = tmp_path / "reference", tmp_path / "run"
    quick_run("icarl", out=reference)
    with pytest.raises(Stop):
        quick_run("icarl", out=out, on_progress=stop_after(5), save_seconds=1e9)
    with (out / "events.jsonl").open("a") as file:
        file.write('{"task": 1, "stage"')
    quick_run("icarl", out=out, resume=True)
    assert (out / "events.jsonl").read_text() == (reference / "events.jsonl").read_text()


def test_kill_during_a_checkpoint_write_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = quick_run("upcl")
    original, calls = os.fsync, 0
    for deadly in range(2, 18, 3):
        out, calls = tmp_path / f"run-{deadly}", 0

        def fsync(handle: int, deadly: int = deadly) -> None:
            nonlocal calls
            if not Path(f"/proc/self/fd/{handle}").resolve().name.startswith(".lease"):
                calls += 1
                if calls == deadly:
                    raise Stop
            original(handle)

        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(Stop):
            quick_run("upcl", out=out, save_seconds=0)
        monkeypatch.setattr(os, "fsync", original)
        resumed = quick_run("upcl", out=out, resume=True, save_seconds=0)
        assert not differences(reference.reproducible_part(), resumed.reproducible_part())


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    """A run stopped in its second task, with a checkpoint of the first task and one of the open stage."""
    out = tmp_path / "run"
    with pytest.raises(Stop):
        quick_run("upcl", out=out, on_progress=stop_after(5), save_seconds=0)
    assert sorted(p.name for p in (out / "checkpoints").iterdir()) == ["task-0.pt", "task-1-stage-0.pt"]
    return out


def test_damaged_checkpoints_are_refused(interrupted: Path) -> None:
    for file in (interrupted / "checkpoints").iterdir():
        good = file.read_bytes()
        for bad, message in ((good[: len(good) // 2], "damaged"), (b"hello", "not a checkpoint")):
            file.write_bytes(bad)
            with pytest.raises(CheckpointError, match=message):
                quick_run("upcl", out=interrupted, resume=True)
        file.write_bytes(good)
    (interrupted / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="not JSON"):
        quick_run("upcl", out=interrupted, resume=True)


def test_swapped_checkpoints_are_refused(interrupted: Path) -> None:
    task, stage = (interrupted / "checkpoints" / name for name in ("task-0.pt", "task-1-stage-0.pt"))
    good = task.read_bytes()
    for target, content in ((task, stage.read_bytes()), (stage, good)):
        kept = target.read_bytes()
        target.write_bytes(content)
        with pytest.raises(CheckpointError, match="was written as"):
            quick_run("upcl", out=interrupted, resume=True)
        target.write_bytes(kept)


def test_checkpoints_of_another_run_are_refused(interrupted: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with pytest.raises(Stop):
        quick_run("upcl", out=other, seed=1, on_progress=stop_after(4))
    name = Path("checkpoints") / "task-0.pt"
    (interrupted / name).write_bytes((other / name).read_bytes())
    with pytest.raises(CheckpointError, match="belongs to another run"):
        quick_run("upcl", out=interrupted, resume=True)


def test_leftovers_of_a_kill_are_removed_and_foreign_files_are_kept(interrupted: Path) -> None:
    for folder in (interrupted, interrupted / "checkpoints"):
        (folder / ".0123456789ab.0123456789ab.partial").write_text("half")
    (interrupted / "checkpoints" / ".DS_Store").write_text("not ours")
    quick_run("upcl", out=interrupted, resume=True)
    names = sorted(p.name for p in interrupted.rglob("*") if p.is_file())
    assert names == [".DS_Store", "config.json", "events.jsonl", "record.json", "sketch.npz", "task-2.pt"]


@pytest.mark.parametrize("method", ["finetune", "upcl"])
@pytest.mark.parametrize("select", ["validation", "test"])
def test_epoch_selection_survives_a_resume(method: str, select: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 7, "select": select}
    reference = quick_run(method, **settings)
    with pytest.raises(Stop):
        quick_run(method, out=tmp_path / "run", on_progress=stop_after(12), save_seconds=0, **settings)
    resumed = quick_run(method, out=tmp_path / "run", resume=True, **settings)
    assert resumed.weights_sha256 == reference.weights_sha256


def test_resume_with_another_number_of_threads_is_noted(tmp_path: Path) -> None:
    out, threads = tmp_path / "run", torch.get_num_threads()
    with pytest.raises(Stop):
        quick_run("finetune", out=out, on_progress=stop_after(4), save_seconds=0)
    try:
        torch.set_num_threads(threads + 1)
        record = quick_run("finetune", out=out, resume=True)
    finally:
        torch.set_num_threads(threads)
    assert f"threads: stored {threads}, requested {threads + 1}" in record.notes[0]


def test_altered_task_checkpoints_are_refused(interrupted: Path) -> None:
    path = interrupted / "checkpoints" / "task-0.pt"
    state = load_checkpoint(path)
    changes: list[dict[str, Any]] = [{key: None} for key in ("method", "results", "environment", "notes")]
    changes += [{"method": {}}, {"method": "x"}, {"results": []}, {"results": state["results"] * 2}, {"results": "x"}]
    changes += [{"results": [{**state["results"][0], "readings": 3}]}, {"results": [{}]}]
    changes += [{"method": {**state["method"], key: "x"}} for key in ("growth", "net", "memory")]
    for change in changes:
        save_checkpoint(path, {key: value for key, value in {**state, **change}.items() if value is not None})
        with pytest.raises(CheckpointError, match="checkpoint of the last finished task is damaged"):
            quick_run("upcl", out=interrupted, resume=True)
    save_checkpoint(path, state)
    assert quick_run("upcl", out=interrupted, resume=True).finished
