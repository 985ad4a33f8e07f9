"""The folder of a run: config, record, events and the checkpoints from which it goes on.

config.json                     what was asked for, resolved; its digest is the run's identity
record.json                     what came out, rewritten after each task
events.jsonl                    one line for each epoch: losses by name
sketch.npz                      after the last task: what pictures of the model need
checkpoints/task-T.pt           the state after task T
checkpoints/task-T-stage-S.pt   a stage of the open task: after its last saved epoch, or finished
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from upcl.core.errors import CheckpointError, UserError
from upcl.core.files import PARTIAL, exclusive_lock, write_atomic, write_json
from upcl.core.identity import differences

from .checkpoints import load_checkpoint, save_checkpoint

Position = tuple[int, int, int]


"""Task, stage, epoch."""


class Identity(Protocol):
    """What makes one run, or one step of a model, another."""

    def to_json(self) -> dict[str, Any]: ...

    def digest(self) -> str: ...


class RunFolder:
    """Everything that a run writes. Used as a context manager: one process at a time."""

    def __init__(self, path: Path, config: Identity, *, resume: bool, save_seconds: float) -> None:
        self.path = path
        self.config = config
        self.resume = resume
        self.save_seconds = save_seconds
        self._saved_at = time.monotonic()
        self._stack = ExitStack()

    def __enter__(self) -> RunFolder:
        self._look()
        self.path.mkdir(parents=True, exist_ok=True)
        busy = f"{self.path} is in use by another process"
        with ExitStack() as stack:
            stack.enter_context(exclusive_lock(self.path / ".lock", busy=busy))
            self._claim()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _look(self) -> bool:
        """Whether there is a run to go on with; refuse a folder that is neither empty nor ours, leaving it as it is."""
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file: choose another --out")
        content = [p.name for p in self.path.iterdir()] if self.path.exists() else []
        if all(name == ".lock" or name.endswith(PARTIAL) for name in content):
            return False
        if "config.json" not in content:
            raise UserError(f"{self.path} is not empty and holds no run: choose another --out")
        if not self.resume:
            raise UserError(f"{self.path} holds a run: add --resume to go on with it, or choose another --out")
        return True

    def _claim(self) -> None:
        """Take an empty folder, or one whose run has this very config."""
        config_file = self.path / "config.json"
        if not self._look():
            write_json(config_file, self.config.to_json())
        else:
            try:
                stored = json.loads(config_file.read_text())
            except ValueError:
                raise CheckpointError(f"{config_file} is damaged: it is not JSON") from None
            if changes := differences(stored, self.config.to_json()):
                raise UserError(f"{self.path} holds a run with another config:\n  " + "\n  ".join(changes))
        (self.path / "checkpoints").mkdir(exist_ok=True)
        (self.path / "events.jsonl").touch()
        for partial in self.path.rglob(f"*{PARTIAL}"):
            partial.unlink()

    def _checkpoint(self, task: int, stage: int | None = None) -> Path:
        suffix = "" if stage is None else f"-stage-{stage}"
        return self.path / "checkpoints" / f"task-{task}{suffix}.pt"

    def last_task(self, num_tasks: int) -> dict[str, Any] | None:
        """The state after the last finished task."""
        for task in reversed(range(num_tasks)):
            if self._checkpoint(task).exists():
                state = self._load(self._checkpoint(task))
                self._drop_replaced(task)
                return state
        return None

    def save_task(self, task: int, state: Mapping[str, Any]) -> None:
        """Store the state after a task; only then drop what it replaces."""
        self._save(self._checkpoint(task), state)
        self._drop_replaced(task)

    def _drop_replaced(self, task: int) -> None:
        for path in (self.path / "checkpoints").iterdir():
            if path != self._checkpoint(task) and int(path.stem.split("-")[1]) <= task:
                path.unlink()

    def open_stage(self, task: int, stage: int) -> dict[str, Any] | None:
        """The last saved state of a stage of the open task."""
        path = self._checkpoint(task, stage)
        return self._load(path) if path.exists() else None

    def save_stage(self, task: int, stage: int, state: Mapping[str, Any]) -> None:
        self._save(self._checkpoint(task, stage), state)

    @property
    def is_due(self) -> bool:
        """Whether enough time has gone by to save an epoch."""
        return time.monotonic() - self._saved_at >= self.save_seconds

    def _save(self, path: Path, state: Mapping[str, Any]) -> None:
        save_checkpoint(path, {"config_digest": self.config.digest(), "file": path.name, **state})
        self._saved_at = time.monotonic()

    def _load(self, path: Path) -> dict[str, Any]:
        state = load_checkpoint(path)
        if state.get("config_digest") != self.config.digest():
            raise CheckpointError(f"{path} belongs to another run: its config digest differs")
        if state["file"] != path.name:
            raise CheckpointError(f"{path} was written as {state['file']}: put it back under that name")
        return state

    def truncate_events(self, position: Position) -> None:
        """Drop the lines of epochs that will be trained again, and a last line cut by a kill."""
        path = self.path / "events.jsonl"
        kept = []
        for line in path.read_text(errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if (event["task"], event["stage"], event["epoch"]) < position:
                kept.append(line + "\n")
        write_atomic(path, "".join(kept).encode())

    def log(self, event: Mapping[str, Any]) -> None:
        with open(self.path / "events.jsonl", "a") as file:
            file.write(json.dumps(event) + "\n")

    def write_record(self, record: Mapping[str, Any]) -> None:
        write_json(self.path / "record.json", record)

    def write_sketch(self, sketch: Mapping[str, Tensor]) -> None:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **{name: value.numpy() for name, value in sketch.items()})
        write_atomic(self.path / "sketch.npz", buffer.getbuffer())

    def finished_record(self) -> dict[str, Any] | None:
        """The record, if the run is over: it is not written again."""
        try:
            record: dict[str, Any] = json.loads((self.path / "record.json").read_text())
        except (OSError, ValueError):
            return None
        return record if record.get("finished") and record.get("config_digest") == self.config.digest() else None
