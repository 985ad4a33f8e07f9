"""Checkpoint files that are verified before they are loaded."""

from __future__ import annotations

import hashlib
import io
import pickle
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from upcl.core.errors import CheckpointError, UpclError
from upcl.core.files import write_atomic
from upcl.core.pickles import check_torch_archive

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
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            is_packed = any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist())
            check_torch_archive(archive)
        if is_packed:  # as `torch.save` never does
            raise CheckpointError(f"{path} is compressed: it was not written by upcl, and was not loaded")
        state = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(f"{path} holds objects other than tensors and plain values; it was not loaded") from error
    except CheckpointError:
        raise
    except Exception as error:  # a damaged archive can fail in any way
        raise CheckpointError(f"{path} is damaged: it does not hold an archive of tensors ({error})") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"{path} does not hold the state of a run")
    return state


@contextmanager
def restoring(what: str) -> Iterator[None]:
    """Report whatever fails while a saved state is put back as damage to it: missing keys, other types, other shapes.

    Args:
        what: the state.

    Raises:
        CheckpointError: if anything fails in the block.

    Example:
        >>> with restoring("the state after task 3"):
        ...     {}["net"]
        Traceback (most recent call last):
        upcl.core.errors.CheckpointError: the state after task 3 is damaged or of another version of upcl (KeyError: ...
    """
    try:
        yield
    except (UpclError, OSError):
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise CheckpointError(
            f"{what} is damaged or of another version of upcl ({reason}): remove the run's folder and start again"
        ) from error
