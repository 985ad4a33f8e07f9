"""Runs read back from their folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from upcl.core.errors import UserError
from upcl.data.io.archives import read_npz
from upcl.research.record import FILE_NAME as RECORD_FILE
from upcl.research.record import Record
from upcl.research.sketch import FILE_NAME as SKETCH_FILE
from upcl.training.events import FILE_NAME as EVENTS_FILE
from upcl.training.events import Event, read_events

SKETCH_ARRAYS = (
    "features",
    "labels",
    "vectors",
    "exemplars",
    "exemplar_labels",
    "errors",
    "error_labels",
    "error_taken",
)
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class StoredRun:
    """The folder of a run: its record, and on demand its events and its sketch.

    Args:
        folder: the run's folder.
        record: the run's record.

    Example:
        >>> import tempfile
        >>> from upcl import Request, run
        >>> stream = Request(method="finetune", data="synthetic:classes=4,train=2,test=2", tasks=2, epochs=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     stored = StoredRun(Path(folder), run(stream, out=folder))
        ...     len(stored.events)
        2
    """

    folder: Path
    record: Record

    @cached_property
    def events(self) -> list[Event]:
        """One event per epoch; truncated or foreign lines of the log are skipped."""
        path = self.folder / EVENTS_FILE
        return [event for _, event in read_events(path)] if path.is_file() else []

    @cached_property
    def sketch(self) -> Arrays | None:
        """Features and images of the final model; None if the run is not finished or the file was removed."""
        path = self.folder / SKETCH_FILE
        if not path.is_file():
            return None
        try:
            arrays = read_npz(path, SKETCH_ARRAYS)
            is_whole = _is_sketch(arrays, len(self.record.classes))
        except UserError:
            is_whole = False
        if not is_whole:
            raise UserError(f"{path} is damaged: remove it, or repeat the run")
        return arrays


def _is_sketch(arrays: Arrays, num_classes: int) -> bool:
    """Whether the arrays have the types and shapes that figures rely on."""
    if set(arrays) != set(SKETCH_ARRAYS):
        return False
    features, vectors = arrays["features"], arrays["vectors"]
    are_vectors = all(
        each.ndim == 2 and each.dtype.kind == "f" and np.isfinite(each).all() for each in (features, vectors)
    )
    if not are_vectors or vectors.shape != (num_classes, features.shape[1]):
        return False
    if any(arrays[name].ndim != 4 or arrays[name].dtype != np.uint8 for name in ("exemplars", "errors")):
        return False
    if any(arrays[name].shape[1] not in (1, 3) or 0 in arrays[name].shape[2:] for name in ("exemplars", "errors")):
        return False
    labelled = {"labels": features, "exemplar_labels": arrays["exemplars"]}
    labelled |= dict.fromkeys(("error_labels", "error_taken"), arrays["errors"])
    return all(_are_labels(arrays[name], len(rows), num_classes) for name, rows in labelled.items())


def _are_labels(labels: np.ndarray, num: int, num_classes: int) -> bool:
    is_right = labels.shape == (num,) and labels.dtype.kind in "iu"
    return is_right and bool(((labels >= 0) & (labels < num_classes)).all())


def read_runs(paths: Sequence[Path], notes: list[str] | None = None) -> list[StoredRun]:
    """Read the runs in these folders and below them; a config that occurs twice is read once.

    Args:
        paths: folders of runs, or folders that contain some. Runs are returned in this order, and by name within each.
        notes: a list that receives a sentence about each run that is left out.

    Raises:
        UserError: if a folder contains no run, a record is damaged, or no run has finished a task.

    Example:
        >>> import tempfile
        >>> from upcl import Request, run
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for seed in (0, 1):
        ...         stream = {"data": "synthetic:classes=2,train=2,test=2", "tasks": 1, "epochs": 1}
        ...         _ = run(Request(method="finetune", seed=seed, **stream), out=f"{folder}/seed{seed}")
        ...     [stored.folder.name for stored in read_runs([Path(folder)])]
        ['seed0', 'seed1']
    """
    folders = list(dict.fromkeys(folder.resolve() for path in paths for folder in sorted(_run_folders(path))))
    runs: dict[str, StoredRun] = {}
    skipped = [] if notes is None else notes
    for folder in folders:
        run = StoredRun(folder, Record.read(folder))
        digest = run.record.config_digest
        if not run.record.seconds:
            skipped.append(f"skipped: no finished task yet: {folder.name}")
        elif digest in runs:
            skipped.append(f"skipped: the same run as {runs[digest].folder}: {folder}")
        else:
            runs[digest] = run
    if folders and not runs:
        raise UserError(f"none of the {len(folders)} runs has finished a task yet")
    return list(runs.values())


def _run_folders(path: Path) -> Iterator[Path]:
    if not path.exists():
        raise UserError(f"{path} does not exist")
    if path.is_file() and path.name != RECORD_FILE:
        raise UserError(f"{path} is a file: pass the folder of a run, or one that contains some")
    folders = [file.parent for file in ([path] if path.is_file() else path.rglob(RECORD_FILE))]
    if not folders:
        raise UserError(f"{path} contains no run: `upcl train ... --out {path}/NAME` creates one")
    yield from folders
