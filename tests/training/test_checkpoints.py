"""Checkpoint files."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from pathlib import Path

import pytest
import torch

from upcl.core.errors import CheckpointError
from upcl.training.checkpoints import load_checkpoint, save_checkpoint

STATE = {"epoch": 3, "net": {"weight": torch.arange(4.0)}, "names": ["a", "b"], "best": None}


def test_a_checkpoint_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    save_checkpoint(path, STATE)
    loaded = load_checkpoint(path)
    assert torch.equal(loaded["net"]["weight"], torch.arange(4.0))
    assert {key: loaded[key] for key in ("epoch", "names", "best")} == {"epoch": 3, "names": ["a", "b"], "best": None}


def test_damaged_foreign_and_newer_files_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    save_checkpoint(path, STATE)
    good = path.read_bytes()
    cases = {
        b"": "not a checkpoint",
        b"PK\x03\x04 something else": "not a checkpoint",
        good[:-10]: "damaged or was altered",
        good[:-3] + bytes([good[-3] ^ 1]) + good[-2:]: "damaged or was altered",
        good.replace(b"upcl-checkpoint 1", b"upcl-checkpoint 9", 1): "reads format 1",
    }
    for content, message in cases.items():
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=message):
            load_checkpoint(path)


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("executed",)


def test_a_file_that_would_execute_code_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    buffer = io.BytesIO()
    torch.save({"net": Evil()}, buffer)
    cases = {
        buffer.getvalue(): "objects other than tensors and plain values",
        pickle.dumps(Evil()): "archive of tensors",
    }
    for body, message in cases.items():
        path = tmp_path / "evil.pt"
        path.write_bytes(f"upcl-checkpoint 1 {hashlib.sha256(body).hexdigest()}\n".encode() + body)
        with pytest.raises(CheckpointError, match=message):
            load_checkpoint(path)
    assert not (tmp_path / "executed").exists()


def test_a_kill_during_a_write_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.pt"
    save_checkpoint(path, STATE)

    def die(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", die)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(path, {**STATE, "epoch": 4})
    assert load_checkpoint(path)["epoch"] == 3
