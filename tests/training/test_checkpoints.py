"""Checkpoint files."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import zipfile
from pathlib import Path

import pytest
import torch

from upcl.core.errors import CheckpointError
from upcl.training.checkpoints import load_checkpoint, restoring, save_checkpoint

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


def write_with_digest(path: Path, body: bytes) -> Path:
    path.write_bytes(f"upcl-checkpoint 1 {hashlib.sha256(body).hexdigest()}\n".encode() + body)
    return path


def test_damage_with_the_right_digest_is_an_error(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "x.pt", STATE)
    body = (tmp_path / "x.pt").read_bytes().partition(b"\n")[2]
    empty = io.BytesIO()
    zipfile.ZipFile(empty, "w").close()
    for damaged in (b"PK", body[:-10], body[: len(body) // 2], b"PK\x03\x04" + b"\0" * 99, empty.getvalue()):
        with pytest.raises(CheckpointError, match=r"x\.pt is damaged|was not loaded"):
            load_checkpoint(write_with_digest(tmp_path / "x.pt", damaged))


def test_compressed_archive_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/0", bytes(10**6))
    with pytest.raises(CheckpointError, match="is compressed"):
        load_checkpoint(write_with_digest(tmp_path / "x.pt", packed.getvalue()))


def test_what_fails_while_a_state_is_put_back_is_damage_to_it() -> None:
    for error in (KeyError("net"), TypeError("x"), RuntimeError("size mismatch"), RecursionError()):
        with pytest.raises(CheckpointError, match="the state is damaged"), restoring("the state"):
            raise error
    with pytest.raises(OSError, match="disk"), restoring("the state"):
        raise OSError("disk full")
