"""Runs read back from their folders."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from upcl.core.errors import UserError
from upcl.research.record import Record

SKETCH = ("features", "labels", "vectors", "exemplars", "exemplar_labels", "errors", "error_labels", "error_taken")
Event = dict[str, Any]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A run's folder: its record, and, when asked for, its events and its sketch."""

    folder: Path
    record: Record

    @cached_property
    def events(self) -> list[Event]:
        """One for each epoch; lines that a kill cut, or that are none of ours, are left out."""
        path, events = self.folder / "events.jsonl", []
        for line in path.read_text(errors="replace").splitlines() if path.is_file() else []:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and {"task", "losses"} <= event.keys():
                events.append(event)
        return events

    @cached_property
    def sketch(self) -> Arrays | None:
        """None for a run that is not finished, or whose sketch was removed."""
        path = self.folder / "sketch.npz"
        if not path.is_file():
            return None
        try:
            with np.load(path, allow_pickle=False) as file:
                return {name: file[name] for name in SKETCH}
        except (OSError, ValueError, KeyError, zlib.error, zipfile.BadZipFile):
            raise UserError(f"{path} is damaged: remove it, or make the run again") from None


def read_runs(paths: Sequence[Path], notes: list[str] | None = None) -> list[StoredRun]:
    """The runs in these folders, in this order, and below them, by the names of their folders; each config once.

    Those without a finished task are left out and told in `notes`; there must be one that has some.
    """
    folders = list(dict.fromkeys(folder.resolve() for path in paths for folder in sorted(_folders(path))))
    runs: dict[str, StoredRun] = {}
    told = [] if notes is None else notes
    for folder in folders:
        run = StoredRun(folder, Record.read(folder))
        digest = run.record.config_digest
        if not run.record.seconds:
            told.append(f"left out, as it has no finished task yet: {folder.name}")
        elif digest in runs:
            told.append(f"left out, as it is the same run as {runs[digest].folder}: {folder}")
        else:
            runs[digest] = run
    if folders and not runs:
        raise UserError(f"none of the {len(folders)} runs has a finished task yet")
    return list(runs.values())


def _folders(path: Path) -> Iterator[Path]:
    if not path.exists():
        raise UserError(f"there is nothing at {path}")
    if path.is_file() and path.name != "record.json":
        raise UserError(f"{path} is a file: name the folder of a run, or one that holds some")
    folders = [file.parent for file in ([path] if path.is_file() else path.rglob("record.json"))]
    if not folders:
        raise UserError(f"{path} holds no run: `upcl train ... --out {path}/NAME` makes one")
    yield from folders
