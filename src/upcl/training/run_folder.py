"""The folder of a run.

=============================  ======================================================================================
config.json                    the resolved config; its digest is the identity of the run
record.json                    the results, rewritten after each task
events.jsonl                   one line per epoch with the mean of each loss term
sketch.npz                     after the last task: data for figures of the model
checkpoints/task-T.pt          the state after task T
checkpoints/task-T-stage-S.pt  a stage of the open task: its last saved epoch, or its end
.lease                         held while a process works in the folder
=============================  ======================================================================================
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from upcl.core.errors import CheckpointError, UserError
from upcl.core.files import PARTIAL, errors_name, is_partial, parse_json, write_atomic, write_json
from upcl.core.identity import differences
from upcl.core.lease import NAME as LEASE
from upcl.core.lease import Lease, hold_lease

from .checkpoints import load_checkpoint, save_checkpoint
from .events import FILE_NAME as EVENTS_FILE
from .events import read_events

Position = tuple[int, int, int]
"""Indices of task, stage and epoch."""


class Identity(Protocol):
    """What distinguishes one run, or one update of a model, from another.

    Example:
        >>> from upcl.model.plan import UpdateIdentity
        >>> identity: Identity = UpdateIdentity({"model": 0})
        >>> identity.to_json(), len(identity.digest())
        ({'model': 0}, 64)
    """

    def to_json(self) -> dict[str, Any]:
        """A JSON value that a later process compares its own with."""
        ...

    def digest(self) -> str:
        """A digest of that value, stored in every checkpoint."""
        ...


class RunFolder:
    """Everything that a run writes. A context manager: one process at a time works in the folder.

    Args:
        path: the folder.
        config: the identity of the run.
        resume: continue a run that is there, which must have the same config.
        save_seconds: time between checkpoints within a task.

    Raises:
        UserError: on entering, if the folder is in use or holds something else.

    Example:
        >>> import tempfile
        >>> from upcl.research.config import Request, resolve
        >>> request = Request(data="digits")
        >>> config = resolve(request, request.load_dataset(), request.method_class)
        >>> with RunFolder(Path(tempfile.mkdtemp()), config, resume=False, save_seconds=30) as folder:
        ...     folder.save_task(0, {"accuracy": 90.0})
        ...     folder.last_task(num_tasks=5)["accuracy"]
        90.0
    """

    def __init__(self, path: Path, config: Identity, *, resume: bool, save_seconds: float) -> None:
        self.path = path
        self.config = config
        self.resume = resume
        self.save_seconds = save_seconds
        self._saved_at = time.monotonic()
        self._stack = ExitStack()
        self._lease: Lease | None = None

    def __enter__(self) -> RunFolder:
        self._holds_run()
        self.path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            self._lease = stack.enter_context(hold_lease(self.path, busy=f"{self.path} is in use by another process"))
            self._claim()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _holds_run(self) -> bool:
        """Whether there is a run to continue; a folder that is neither empty nor a run's is refused, untouched."""
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file: choose another --out")
        content = list(self.path.iterdir()) if self.path.exists() else []
        if all(path.name == ".lock" or path.name.startswith(LEASE) or is_partial(path) for path in content):
            return False
        if not (self.path / "config.json").exists():
            raise UserError(f"{self.path} is not empty and does not hold a run: choose another --out")
        if not self.resume:
            raise UserError(f"{self.path} already holds a run: add --resume to continue it, or choose another --out")
        return True

    def _claim(self) -> None:
        """Take an empty folder, or one whose run has exactly this config."""
        config_file = self.path / "config.json"
        if not self._holds_run():
            write_json(config_file, self.config.to_json())
        else:
            try:
                stored = parse_json(config_file.read_text())
            except ValueError as error:
                raise CheckpointError(f"{config_file} is damaged: it is not JSON ({error})") from None
            if changes := differences(stored, self.config.to_json()):
                raise UserError(f"{self.path} holds a run with another config:\n  " + "\n  ".join(changes))
        (self.path / "checkpoints").mkdir(exist_ok=True)
        (self.path / EVENTS_FILE).touch()
        for path in self.path.rglob(f"*{PARTIAL}*"):
            if is_partial(path):
                path.unlink()

    def _checkpoint(self, task: int, stage: int | None = None) -> Path:
        suffix = "" if stage is None else f"-stage-{stage}"
        return self.path / "checkpoints" / f"task-{task}{suffix}.pt"

    def last_task(self, num_tasks: int) -> dict[str, Any] | None:
        """The state after the last finished task; None if there is none.

        Args:
            num_tasks: number of tasks of the run.
        """
        for task in reversed(range(num_tasks)):
            if self._checkpoint(task).exists():
                state = self._load(self._checkpoint(task))
                self._remove_superseded(task)
                return state
        return None

    def save_task(self, task: int, state: Mapping[str, Any]) -> None:
        """Store the state after a task, and only then remove the checkpoints that it supersedes.

        Args:
            task: index of the task.
            state: tensors and plain values.
        """
        self._save(self._checkpoint(task), state)
        self._remove_superseded(task)

    def _remove_superseded(self, task: int) -> None:
        """Remove our checkpoints of this task and earlier ones; other files in the folder are left alone."""
        for path in (self.path / "checkpoints").iterdir():
            found = re.fullmatch(r"task-(\d+)(-stage-\d+)?\.pt", path.name)
            if found and path != self._checkpoint(task) and int(found[1]) <= task:
                path.unlink()

    def open_stage(self, task: int, stage: int) -> dict[str, Any] | None:
        """The last saved state of a stage of the open task; None if there is none.

        Args:
            task: index of the task.
            stage: index of the stage.
        """
        path = self._checkpoint(task, stage)
        return self._load(path) if path.exists() else None

    def save_stage(self, task: int, stage: int, state: Mapping[str, Any]) -> None:
        """Store the state of a stage of the open task.

        Args:
            task: index of the task.
            stage: index of the stage.
            state: tensors and plain values.
        """
        self._save(self._checkpoint(task, stage), state)

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether it is time to save an epoch."""
        return time.monotonic() - self._saved_at >= self.save_seconds

    def check(self) -> None:
        """Make sure that no other process has taken over; called before anything is written.

        Raises:
            LostLeaseError: if one has.
        """
        if self._lease:
            self._lease.check()

    def _save(self, path: Path, state: Mapping[str, Any]) -> None:
        self.check()
        save_checkpoint(path, {"config_digest": self.config.digest(), "file": path.name, **state})
        self._saved_at = time.monotonic()

    def _load(self, path: Path) -> dict[str, Any]:
        state = load_checkpoint(path)
        if state.get("config_digest") != self.config.digest():
            raise CheckpointError(f"{path} belongs to another run: its config digest differs")
        if state.get("file") != path.name:
            raise CheckpointError(f"{path} was written as {state.get('file')}: rename it back")
        return state

    def truncate_events(self, position: Position) -> None:
        """Remove the events of epochs that will be trained again, and lines that are none.

        Args:
            position: the first task, stage and epoch to be trained again.
        """
        self.check()
        path = self.path / EVENTS_FILE
        kept = [f"{line}\n" for line, event in read_events(path) if event.position < position]
        write_atomic(path, "".join(kept).encode())

    def log(self, event: Mapping[str, Any]) -> None:
        """Append an event.

        Args:
            event: JSON-serialisable values, among them those of an `Event`.
        """
        self.check()
        path = self.path / EVENTS_FILE
        with errors_name(path), open(path, "a") as file:
            file.write(json.dumps(event) + "\n")
