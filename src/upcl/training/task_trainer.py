"""One task learned stage by stage, and saved on the way: a killed process goes on as if it had never stopped."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import nn

from upcl.core.errors import UserError
from upcl.core.identity import differences
from upcl.core.seeding import seed_all
from upcl.core.types import Stage, Task
from upcl.methods import Method

from .engine import EpochResult, EpochSelector, FitState, fit
from .run_folder import RunFolder


class Clock:
    """Seconds since it was made, on top of those an earlier process spent."""

    def __init__(self) -> None:
        self.earlier = 0.0
        self._start = time.monotonic()

    def seconds(self) -> float:
        return self.earlier + time.monotonic() - self._start


@dataclass(eq=False)
class TaskTrainer:
    """Teaches a method one task after the other, in a folder that keeps what is open. `still` modules do not learn."""

    method: Method[Any]
    folder: RunFolder
    seed: int
    environment: dict[str, Any]
    on_epoch: Callable[[Task, str, EpochResult], None]
    on_step: Callable[[], None] | None = None
    notes: list[str] = field(default_factory=list)
    still: Sequence[nn.Module] = ()

    def learn(self, task: Task, selector: EpochSelector | None = None) -> float:
        """Learn a task and tell the seconds. Finished stages of a resumed task are replayed without training."""
        clock = Clock()
        seed_all(self.seed, "task", task.index)
        for index, stage in enumerate(self.method.learn(task)):
            saved = self.folder.open_stage(task.index, index)
            if saved:
                self.note_change(saved)
                clock.earlier = saved["seconds"]
            if saved and saved["finished"]:
                self.method.net.load_state_dict(saved["fit"]["net"])
                self.method.net.eval()
            else:
                self._train(task, index, stage, saved["fit"] if saved else None, clock, selector)
            seed_all(self.seed, "task", task.index, "after", index)
        return clock.seconds()

    def note_change(self, saved: FitState) -> None:
        """Weights are the same bit for bit only with the same threads, device and versions."""
        self.notes += [note for note in saved["notes"] if note not in self.notes]
        if changes := differences(saved["environment"], self.environment):
            self.notes.append(f"resumed in another environment: {'; '.join(changes)}")

    def _train(
        self, task: Task, index: int, stage: Stage, start: FitState | None, clock: Clock, selector: EpochSelector | None
    ) -> None:
        """Train one stage, from its beginning or from a saved epoch, and save its end."""
        stage = self._without_still(stage)
        self.folder.truncate_events((task.index, index, start["epoch"] + 1 if start else 0))
        setting = self.method.setting
        fit(
            self.method.net,
            stage,
            transform=setting.transform,
            device=setting.device,
            seed_path=(self.seed, "task", task.index, "stage", index),
            start=start,
            on_step=self.on_step,
            on_epoch=partial(self._after_epoch, task, index, stage.name, clock),
            selector=selector,
        )
        self._save(task, index, {"net": self.method.net.state_dict()}, clock, finished=True)

    def _without_still(self, stage: Stage) -> Stage:
        if not self.still:
            return stage
        still = {id(parameter) for module in self.still for parameter in module.parameters()}
        params = [parameter for parameter in stage.params if id(parameter) not in still]
        if not params:
            raise UserError(
                f"{self.method.title} has nothing to learn when the backbone stands still: add --set projector=256, "
                "or choose another method, such as icarl"
            )
        return dataclasses.replace(stage, params=params, frozen=(*stage.frozen, *self.still))

    def _after_epoch(self, task: Task, stage: int, name: str, clock: Clock, end: EpochResult) -> None:
        where = {"task": task.index, "stage": stage, "epoch": end.epoch}
        diagnostics = self.method.net.head.diagnostics(task.num_old)
        self.folder.log({**where, "name": name, "lr": end.lr, "losses": dict(end.losses), **diagnostics})
        if self.folder.is_due:
            self._save(task, stage, end.state(), clock, finished=False)
        self.on_epoch(task, name, end)

    def _save(self, task: Task, index: int, fitted: FitState, clock: Clock, *, finished: bool) -> None:
        state = {"finished": finished, "seconds": clock.seconds(), "fit": fitted}
        self.folder.save_stage(task.index, index, {**state, "environment": self.environment, "notes": self.notes})
