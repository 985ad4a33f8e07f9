"""Checkpoint files that are verified before they are loaded."""

from __future__ import annotations

import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

import torch

from upcl.core.errors import CheckpointError
from upcl.core.files import write_atomic

MAGIC = "upcl-checkpoint"
VERSION = 1


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain values atomically, after a header with the format and the digest of the content.

    Args:
        path: the file to create or replace.
        state: nested containers of tensors, numbers and strings.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "state.pt"
        >>> save_checkpoint(path, {"epoch": 3})
        >>> load_checkpoint(path)
        {'epoch': 3}
    """
    buffer = io.BytesIO()
    torch.save(state, buffer)
    body = buffer.getbuffer()
    header = f"{MAGIC} {VERSION} {hashlib.sha256(body).hexdigest()}\n"
    write_atomic(path, header.encode(), body)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint without executing code; anything but exactly what was written is refused.

    Args:
        path: the file.

    Raises:
        CheckpointError: if the file is damaged, was altered, or is not a checkpoint.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "state.pt"
        >>> _ = path.write_bytes(b"something else")
        >>> load_checkpoint(path)
        Traceback (most recent call last):
        upcl.core.errors.CheckpointError: ... is not a checkpoint of upcl
    """
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
        raise CheckpointError(f"{path} holds objects other than tensors and plain values; it was not loaded") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path} does not hold the state of a run")
    return state
