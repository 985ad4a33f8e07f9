"""Files that are whole or not there: atomic writes, and checkpoints that are checked before they are believed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import uuid
from pathlib import Path
from typing import Any

import torch

from .errors import CheckpointError

MAGIC = "upcl-checkpoint"
VERSION = 1
PARTIAL = ".partial"


def write_atomic(path: Path, *content: bytes | memoryview) -> None:
    """Write beside the target, flush to disk, rename over it: a kill at any moment leaves the old file or the new."""
    partial = partial_name(path)
    try:
        with open(partial, "wb") as file:
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def partial_name(path: Path) -> Path:
    """Where a file is written before it takes its name: no other process or machine writes there."""
    return path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}{PARTIAL}")


def write_json(path: Path, value: Any) -> None:
    write_atomic(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Tensors and plain values, behind a line that names the format and the content's digest."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    body = buffer.getbuffer()
    header = f"{MAGIC} {VERSION} {hashlib.sha256(body).hexdigest()}\n"
    write_atomic(path, header.encode(), body)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint without executing any code from it; refuse whatever is not exactly what was written."""
    header, _, body = path.read_bytes().partition(b"\n")
    words = header.decode("ascii", "replace").split(" ")
    if len(words) != 3 or words[0] != MAGIC:
        raise CheckpointError(f"{path} is not a checkpoint of upcl")
    if words[1] != str(VERSION):
        raise CheckpointError(f"{path} has format {words[1]}; this version of upcl reads format {VERSION}")
    if hashlib.sha256(body).hexdigest() != words[2]:
        raise CheckpointError(f"{path} is damaged or was altered: its content does not match its digest")
    if not body.startswith(b"PK"):
        raise CheckpointError(f"{path} does not hold an archive of tensors; it was not loaded")
    try:
        state = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(f"{path} holds more than tensors and plain values; it was not loaded") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path} does not hold the state of a run")
    return state
