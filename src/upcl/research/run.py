"""protocol x method x seed -> record. Checkpoints on the way; a killed run goes on as if it had never stopped."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.frames import largest_cosine
from upcl.core.identity import weights_sha256
from upcl.core.metrics import imbalance_ratio
from upcl.core.seeding import preserve_rng_state, seed_all
from upcl.core.types import Task
from upcl.data import Dataset, load_dataset
from upcl.methods import Setting
from upcl.methods.registry import MethodClass, find_method
from upcl.nets import Execution
from upcl.training.engine import EpochResult, EpochSelector
from upcl.training.environment import (
    compile_error,
    deterministic,
    environment,
    peak_memory_mb,
    reset_peak_memory,
    select_device,
)
from upcl.training.evaluate import READINGS, evaluate, head_accuracy
from upcl.training.profiler import Profile
from upcl.training.run_folder import RunFolder
from upcl.training.task_trainer import TaskTrainer

from .config import RunConfig, make_request, resolve
from .protocol import Protocol
from .record import Record, TaskResult, describe, make_record
from .sketch import sketch

SAVE_SECONDS = 30.0


@dataclass(frozen=True)
class RunProgress:
    """Where a run stands, told after every epoch and after every task."""

    task: int
    num_tasks: int
    stage: str
    epoch: int
    epochs: int
    losses: Mapping[str, float]
    accuracy: float | None = None
    nme: float | None = None


ProgressCallback = Callable[[RunProgress], None]


def run(
    method: str | MethodClass = "upcl",
    data: str | Dataset = "digits",
    *,
    out: str | Path | None = None,
    resume: bool = False,
    device: str = "auto",
    data_root: str | Path | None = None,
    watch: ProgressCallback | None = None,
    save_seconds: float = SAVE_SECONDS,
    compiled: bool = False,
    profile: Profile | None = None,
    **request: Any,
) -> Record:
    """Learn the tasks of a data set one after the other and return the record.

    `method` and `data` are names, or a class and a `Dataset` of your own. `request` takes the other fields of
    `config.Request`: tasks, memory, seed, order_seed, epochs, backbone, recipe, protocol, options and so on. With
    `out` the run's folder stays, and `resume=True` goes on with it. `data_root` is the folder that holds data sets
    (else UPCL_DATA, else the platform's cache). `watch` is told after every epoch. `compiled` compiles the backbone,
    `profile` traces a few steps.

    >>> record = run("finetune", "synthetic:classes=4,train=8,test=4", tasks=2, epochs=1)
    >>> record["task_sizes"], sorted(record["a_last"])
    ([2, 2], ['head', 'nme'])
    """
    method_class = find_method(method) if isinstance(method, str) else method
    dataset = load_dataset(data, data_root) if isinstance(data, str) else data
    method_name = method if isinstance(method, str) else method.name
    asked = make_request({"method": method_name, "data": dataset.name, **request})
    config = resolve(asked, dataset, method_class)
    chosen = select_device(device)
    with _place(out) as path, preserve_rng_state(), deterministic(chosen):
        prepared = Run(config, dataset, method_class, chosen, watch, compiled=compiled, profile=profile)
        with RunFolder(path, config, resume=resume, save_seconds=save_seconds) as folder:
            record = prepared.record(folder)
            if profile:
                profile.close()
            return record


@contextmanager
def _place(out: str | Path | None) -> Iterator[Path]:
    if out is not None:
        yield Path(out)
    else:
        with tempfile.TemporaryDirectory(prefix="upcl-") as path:
            yield Path(path)


def make_setting(config: RunConfig, dataset: Dataset, device: torch.device, *, compiled: bool = False) -> Setting:
    """What stands around a method in this run."""
    return Setting(
        backbone=config.backbone,
        channels=dataset.channels,
        transform=dataset.transform,
        recipes=config.recipes,
        budget=config.budget,
        selection=config.exemplars,
        image_shape=dataset.image_shape,
        num_classes=len(dataset.classes),
        device=device,
        execution=Execution(config.precision, compiled),
    )


class Run:
    """One run: prepared before its folder is touched, so that what cannot work leaves nothing behind."""

    folder: RunFolder
    lessons: TaskTrainer

    def __init__(
        self,
        config: RunConfig,
        dataset: Dataset,
        method: MethodClass,
        device: torch.device,
        watch: ProgressCallback | None = None,
        *,
        compiled: bool = False,
        profile: Profile | None = None,
    ) -> None:
        self.config, self.device, self.watch, self.profile = config, device, watch, profile
        self.data_notes = dataset.notes
        self.protocol = Protocol(
            dataset, config.task_sizes, config.order_seed, config.validation, config.tail, config.order
        )
        self.method = method(**config.options)
        obstacle = compile_error(device) if compiled else ""
        compiled = compiled and not obstacle
        self.setting = make_setting(config, dataset, device, compiled=compiled)
        self.environment = environment(device, compiled=compiled)
        self.results: list[TaskResult] = []
        seed_all(config.seed, "start")
        self.method.start(self.setting)
        self.notes = self._notes_in_advance()
        if obstacle:
            self.notes.append(f"not compiled, as this machine cannot: {obstacle}")

    def record(self, folder: RunFolder) -> Record:
        """Do what is left to do and return the whole record."""
        self.folder = folder
        on_step = self.profile.step if self.profile else None
        asked = (self.config.seed, self.environment, self._after_epoch)
        self.lessons = TaskTrainer(self.method, folder, *asked, on_step, self.notes)
        if finished := folder.finished_record():
            return finished
        done = folder.last_task(len(self.protocol))
        if done is not None:
            self.lessons.note_change(done)
            self.method.restore(done["method"])
            self.results = [TaskResult(**result) for result in done["results"]]
        record = self._write_record() if self.results else {}
        for index in range(len(self.results), len(self.protocol)):
            self._learn(self.protocol.task(index))
            record = self._write_record()
        return record

    def _learn(self, task: Task) -> None:
        reset_peak_memory(self.device)
        if self.profile:
            self.profile.begin(task.index)
        self._finish(task, self.lessons.learn(task, self._selector(task)))

    def _finish(self, task: Task, seconds: float) -> None:
        """Evaluate and store the finished task."""
        sizes = self.config.task_sizes[: task.index + 1]
        test = self.protocol.test(task.num_seen)
        readings = evaluate(self.method, test, task.num_seen)
        result = TaskResult(
            readings={name: describe(reading, sizes) for name, reading in readings.items()},
            imbalance=imbalance_ratio(self.method.counts),
            coherence=_coherence(self.method.net.head.vectors),
            exemplars=len(self.method.memory.samples),
            seconds=seconds,
            peak_memory_mb=peak_memory_mb(self.device),
        )
        self.results = [*(earlier.without_confusion() for earlier in self.results), result]
        rows = [r.to_json() for r in self.results]
        state = {"method": self.method.state(), "results": rows, "environment": self.environment, "notes": self.notes}
        if task.index == len(self.protocol) - 1 and readings["head"]:
            confusion = readings["head"].confusion
            self.folder.write_sketch(sketch(self.method, test, task.num_old, task.num_seen, confusion))
        self.folder.save_task(task.index, state)
        if self.watch:
            head, nme = (row["top1"] if (row := result.readings[name]) else None for name in READINGS)
            self.watch(RunProgress(task.index, len(self.protocol), "done", 0, 1, {}, head, nme))

    def _after_epoch(self, task: Task, stage: str, end: EpochResult) -> None:
        if self.watch:
            self.watch(RunProgress(task.index, len(self.protocol), stage, end.epoch, end.epochs, end.losses))

    def _selector(self, task: Task) -> EpochSelector | None:
        """The rule that chooses an epoch. `test` is the official code's: it looks at test data, and is stamped so."""
        if self.config.select == "last":
            return None
        honest = self.config.select == "validation"
        samples = (self.protocol.validation if honest else self.protocol.test)(task.num_seen)
        return EpochSelector(lambda: head_accuracy(self.method, samples), last_too=honest)

    def _write_record(self) -> Record:
        record = make_record(
            self.config,
            class_order=self.protocol.order,
            classes=self.protocol.classes,
            results=self.results,
            weights_sha256=weights_sha256(self.method.net.state_dict()),
            notes=self.notes,
            environment=self.environment,
        )
        self.folder.write_record(record)
        return record

    def _notes_in_advance(self) -> list[str]:
        """What a reader of the record must know, as far as the config and the data tell."""
        notes = list(self.data_notes)
        if self.config.select == "test":
            notes.append("the epoch of each task was chosen on TEST data (the official code's rule)")
        if self.config.select == "validation":
            notes.append("the epoch of each task was chosen on training images held out of all classes seen")
        budget, classes = self.method.memory.budget, self.setting.num_classes
        slots = budget.slots(classes, self.setting.image_bytes)
        if self.method.uses_memory and slots < classes:
            lost = "some have none" if budget.sharing == "exact" else f"from {slots + 1} classes on, none has any"
            notes.append(f"memory holds {slots} exemplars for {classes} classes: {lost}")
        return notes


def _coherence(vectors: Tensor) -> float | None:
    return largest_cosine(F.normalize(vectors.detach().cpu())) if len(vectors) > 1 else None
