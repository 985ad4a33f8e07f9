"""Runs read back from their folders."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UserError
from ..records import SCHEMA, Record

Event = dict[str, Any]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A run's folder: its record, and, when asked for, its events and its sketch."""

    folder: Path
    record: Record

    @cached_property
    def events(self) -> list[Event]:
        """One for each epoch; a last line cut by a kill is left out."""
        path, events = self.folder / "events.jsonl", []
        for line in path.read_text(errors="replace").splitlines() if path.is_file() else []:
            try:
                events.append(json.loads(line))
            except ValueError:
                continue
        return events

    @cached_property
    def sketch(self) -> Arrays | None:
        """None for a run that is not finished, or whose sketch was removed."""
        path = self.folder / "sketch.npz"
        if not path.is_file():
            return None
        try:
            with np.load(path, allow_pickle=False) as file:
                return dict(file)
        except (OSError, ValueError, zipfile.BadZipFile):
            raise UserError(f"{path} is damaged: remove it, or make the run again") from None


def read_runs(paths: Sequence[Path]) -> list[StoredRun]:
    """The runs in these folders and below them, each once, by the names of their folders."""
    runs = {folder.resolve(): _read(folder) for path in paths for folder in _folders(path)}
    return [runs[folder] for folder in sorted(runs)]


def _folders(path: Path) -> Iterator[Path]:
    if not path.exists():
        raise UserError(f"there is nothing at {path}")
    folders = [file.parent for file in ([path] if path.name == "record.json" else path.rglob("record.json"))]
    if not folders:
        raise UserError(f"{path} holds no run: `upcl train ... --out {path}` makes one")
    yield from folders


def _read(folder: Path) -> StoredRun:
    path = folder / "record.json"
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError):
        raise UserError(f"{path} cannot be read: it is not JSON") from None
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        found = record.get("schema") if isinstance(record, dict) else None
        raise UserError(f"{path} has schema {found}; this version of upcl reads schema {SCHEMA}")
    if not record["seconds"]:
        raise UserError(f"{path} has no finished task yet")
    return StoredRun(folder, record)
