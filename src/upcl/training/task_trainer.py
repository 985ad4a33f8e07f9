"""Trains a method on one task, stage by stage, with checkpoints: a killed process continues where it stopped."""

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

from .checkpoints import restoring
from .engine import EpochResult, EpochSelector, FitState, fit
from .run_folder import RunFolder


class Stopwatch:
    """Seconds since its creation, plus those that earlier processes spent.

    Example:
        >>> stopwatch = Stopwatch()
        >>> stopwatch.earlier = 60.0
        >>> stopwatch.seconds() >= 60
        True
    """

    def __init__(self) -> None:
        self.earlier = 0.0
        self._start = time.monotonic()

    def seconds(self) -> float:
        """The time so far."""
        return self.earlier + time.monotonic() - self._start


def freeze(stage: Stage, modules: Sequence[nn.Module], title: str) -> Stage:
    """Exclude modules from what a stage trains.

    Args:
        stage: what the method yielded.
        modules: modules whose parameters and statistics must stay as they are.
        title: title of the method, for messages.

    Raises:
        UserError: if nothing would be left to train.

    Example:
        >>> from upcl.checks import MethodHarness, few_digits
        >>> from upcl.methods import METHODS
        >>> method = (harness := MethodHarness(METHODS["icarl"], few_digits(2))).method
        >>> stage = freeze(next(method.learn(harness.tasks[0])), [method.net.backbone], method.title)
        >>> [list(value.shape) for value in stage.params]
        [[2, 128], [2]]
    """
    if not modules:
        return stage
    fixed = {id(parameter) for module in modules for parameter in module.parameters()}
    params = [parameter for parameter in stage.params if id(parameter) not in fixed]
    if not params:
        raise UserError(
            f"{title} has no parameters to train when the backbone is frozen: choose another method, such as icarl"
        )
    return dataclasses.replace(stage, params=params, frozen=(*stage.frozen, *modules))


@dataclass(eq=False)
class TaskTrainer:
    """Trains a method on one task after the other and keeps the state of the open task in a folder.

    Args:
        method: what to train.
        folder: where checkpoints and events go.
        seed: seed of the run.
        environment: versions, device and threads, to notice a change on resume.
        on_epoch: called after every epoch with the task, the name of the stage and the result of the epoch.
        on_step: called after every step.
        notes: collects what a reader of the results must know.
        frozen: modules that no stage may train.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from upcl.checks import MethodHarness, few_digits
        >>> from upcl.methods import METHODS
        >>> from upcl.research.config import Request, resolve
        >>> data, method_class = few_digits(2), METHODS["finetune"]
        >>> config = resolve(Request(method=method_class, data=data, tasks=3), data, method_class)
        >>> harness, epochs = MethodHarness(method_class, data), []
        >>> with RunFolder(Path(tempfile.mkdtemp()), config, resume=False, save_seconds=30) as folder:
        ...     trainer = TaskTrainer(
        ...         harness.method, folder, 0, {}, on_epoch=lambda task, stage, result: epochs.append(result.epoch)
        ...     )
        ...     seconds = trainer.learn(harness.tasks[0])
        >>> epochs
        [0, 1]
    """

    method: Method[Any]
    folder: RunFolder
    seed: int
    environment: dict[str, Any]
    on_epoch: Callable[[Task, str, EpochResult], None]
    on_step: Callable[[], None] | None = None
    notes: list[str] = field(default_factory=list)
    frozen: Sequence[nn.Module] = ()

    def __post_init__(self) -> None:
        for module in self.frozen:
            module.requires_grad_(False)

    def learn(self, task: Task, selector: EpochSelector | None = None) -> float:
        """Train every stage of a task. Finished stages of a resumed task are replayed without training.

        Args:
            task: what to learn.
            selector: selects the epoch that each stage ends with.

        Returns:
            The training time in seconds, over all processes.
        """
        stopwatch = Stopwatch()
        seed_all(self.seed, "task", task.index)
        for index, stage in enumerate(self.method.learn(task)):
            saved = self.folder.open_stage(task.index, index)
            start, finished = None, False
            if saved:
                with restoring(f"the checkpoint of stage {index} of task {task.index}"):
                    self.note_environment_change(saved)
                    stopwatch.earlier, start, finished = float(saved["seconds"]), saved["fit"], saved["finished"]
                    if not isinstance(finished, bool) or not (finished or isinstance(start["epoch"], int)):
                        raise TypeError("neither a finished stage nor a saved epoch")
                    if finished:
                        self.method.net.load_state_dict(start["net"])
                        self.method.net.eval()
            if not finished:
                self._train(task, index, stage, start, stopwatch, selector)
            seed_all(self.seed, "task", task.index, "after", index)
        return stopwatch.seconds()

    def note_environment_change(self, saved: FitState) -> None:
        """Note a resume in another environment: weights are bit-identical only with equal threads and versions.

        Args:
            saved: a checkpoint with the `notes` and the `environment` of the process that wrote it.
        """
        self.notes += [str(note) for note in saved["notes"] if note not in self.notes]
        if changes := differences(saved["environment"], self.environment):
            self.notes.append(f"resumed in another environment: {'; '.join(changes)}")

    def _train(
        self,
        task: Task,
        index: int,
        stage: Stage,
        start: FitState | None,
        stopwatch: Stopwatch,
        selector: EpochSelector | None,
    ) -> None:
        """Train one stage, from its beginning or from a saved epoch, and save its end."""
        stage = freeze(stage, self.frozen, self.method.title)
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
            on_epoch=partial(self._after_epoch, task, index, stage.name, stopwatch),
            selector=selector,
        )
        self._save(task, index, {"net": self.method.net.state_dict()}, stopwatch, finished=True)

    def _after_epoch(self, task: Task, stage: int, name: str, stopwatch: Stopwatch, result: EpochResult) -> None:
        position = {"task": task.index, "stage": stage, "epoch": result.epoch}
        diagnostics = self.method.net.head.diagnostics(task.num_old)
        self.folder.log({**position, "name": name, "lr": result.lr, "losses": dict(result.losses), **diagnostics})
        if self.folder.is_checkpoint_due:
            self._save(task, stage, result.state(), stopwatch, finished=False)
        self.on_epoch(task, name, result)

    def _save(self, task: Task, index: int, fit_state: FitState, stopwatch: Stopwatch, *, finished: bool) -> None:
        state = {"finished": finished, "seconds": stopwatch.seconds(), "fit": fit_state}
        self.folder.save_stage(task.index, index, {**state, "environment": self.environment, "notes": self.notes})
