"""protocol x method x seed -> record. Checkpoints on the way; a killed run goes on as if it had never stopped."""

from __future__ import annotations

import dataclasses
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
from upcl.core.seeding import preserve_rng_state
from upcl.core.types import Task
from upcl.data import Dataset
from upcl.methods.registry import MethodClass, build_method
from upcl.training.accounting import measure_cost
from upcl.training.checkpoints import restoring
from upcl.training.engine import EpochResult, EpochSelector
from upcl.training.environment import (
    compile_error,
    deterministic,
    environment,
    peak_memory_mb,
    reset_peak_memory,
)
from upcl.training.evaluate import READINGS, evaluate, head_accuracy
from upcl.training.features import frozen_features
from upcl.training.precision import choose_precision, stored_precision
from upcl.training.pretrained import find_pretrained, load_backbone
from upcl.training.profiler import Profiler
from upcl.training.run_folder import RunFolder
from upcl.training.sharding import SharedPhotos
from upcl.training.shared_folder import SharedRunFolder
from upcl.training.task_trainer import TaskTrainer
from upcl.training.world import World, open_world

from .config import Request, RunConfig, resolve
from .record import Record, finished_record
from .results import ReadingFigures, TaskResult, make_record
from .setting import budget_note, input_shape, make_protocol, make_setting
from .sketch import sketch, write_sketch

SAVE_SECONDS = 30.0


@dataclass(frozen=True)
class RunProgress:
    """Where a run is, reported after every epoch and after every task.

    Args:
        task: index of the task.
        num_tasks: number of tasks.
        stage: name of the stage, "done" after a task.
        epoch: index of the epoch that ended.
        epochs: number of epochs of the stage.
        losses: mean of each loss term over the epoch.
        accuracy: accuracy of the head, after a task.
        nme: accuracy of the nearest mean of exemplars, after a task.

    Example:
        >>> RunProgress(0, num_tasks=5, stage="train", epoch=9, epochs=30, losses={"ce": 0.5}).accuracy is None
        True
    """

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
    request: Request,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    device: str = "auto",
    data_root: str | Path | None = None,
    on_progress: ProgressCallback | None = None,
    save_seconds: float = SAVE_SECONDS,
    compiled: bool = False,
    profiler: Profiler | None = None,
) -> Record:
    """Learn the tasks of a data set one after the other and return the record.

    Args:
        request: what to run.
        out: the run's folder, which is kept; without it nothing is kept but the record.
        resume: continue the run in `out`.
        device: auto, cpu, cuda, cuda:1 or mps.
        data_root: folder that holds data sets; else `UPCL_DATA`, else the platform's cache folder.
        on_progress: called after every epoch and every task.
        save_seconds: time between checkpoints within a task.
        compiled: compile the backbone.
        profiler: traces a few steps.

    Example:
        >>> run(Request(method="finetune", data="synthetic:classes=4,train=8,test=4", tasks=2, epochs=1)).task_sizes
        [2, 2]
    """
    with open_world(request.shards, device) as (world, chosen):
        method_class, dataset = request.method_class, request.load_dataset(data_root)
        config = _resolve(request, dataset, Path(out) if resume and out else None, world, chosen)
        world.require_equal("configs", config.digest())
        if name := config.frozen_backbone:
            precision = world.share(lambda: choose_precision(chosen, find_pretrained(name).size))
            dataset = frozen_features(dataset, name, chosen, precision)
        if world.size > 1 and (photos := dataset.transform.photos):
            shared = dataclasses.replace(dataset.transform, photos=SharedPhotos.over(photos, world))
            dataset = dataclasses.replace(dataset, transform=shared)
        with _run_path(out) as path, preserve_rng_state(), deterministic(chosen):
            place = chosen, on_progress, world
            prepared = Run(config, dataset, method_class, *place, compiled=compiled, profiler=profiler)
            with SharedRunFolder(path, config, world, resume=resume, save_seconds=save_seconds) as folder:
                record = prepared.record(folder)
                if profiler:
                    profiler.close()
                return record


def _resolve(request: Request, dataset: Dataset, resumed: Path | None, world: World, device: torch.device) -> RunConfig:
    """Resolve a request, with the precision that the first process chooses or the resumed run has."""
    if request.precision in (None, "auto"):  # another processor may choose otherwise
        stored = world.share(lambda: stored_precision(resumed) if resumed else None)
        request = dataclasses.replace(request, precision=stored or request.precision)
    config = resolve(request, dataset, request.method_class, device)
    return dataclasses.replace(config, precision=world.share(lambda: config.precision))


@contextmanager
def _run_path(out: str | Path | None) -> Iterator[Path]:
    if out is not None:
        yield Path(out)
    else:
        with tempfile.TemporaryDirectory(prefix="upcl-") as path:
            yield Path(path)


class Run:
    """One run, prepared before its folder is touched: a run that cannot work leaves nothing behind.

    Args:
        config: the resolved configuration.
        dataset: the data set.
        method: the class of the method.
        device: where to train.
        on_progress: called after every epoch and every task.
        world: the processes of the run; by default only this one.
        compiled: compile the backbone.
        profiler: traces a few steps.

    Example:
        >>> request = Request(method="icarl", data="digits", memory="5")
        >>> config = resolve(request, data := request.load_dataset(), request.method_class)
        >>> Run(config, data, request.method_class, torch.device("cpu")).notes
        ['memory holds 5 exemplars for 10 classes: some have none']
    """

    folder: RunFolder
    trainer: TaskTrainer

    def __init__(
        self,
        config: RunConfig,
        dataset: Dataset,
        method: MethodClass,
        device: torch.device,
        on_progress: ProgressCallback | None = None,
        world: World | None = None,
        *,
        compiled: bool = False,
        profiler: Profiler | None = None,
    ) -> None:
        self.config, self.device, self.on_progress, self.profiler = config, device, on_progress, profiler
        self.data_notes, self.world = dataset.notes, world or World()
        self.protocol = make_protocol(config, dataset)
        obstacle = compile_error(device) if compiled else ""
        compiled = compiled and not obstacle
        self.setting = make_setting(config, dataset, device, compiled=compiled, world=self.world)
        self.environment = environment(device, compiled=compiled)
        self.results: list[TaskResult] = []
        self.method = build_method(method, config.options, self.setting, config.seed)
        if config.frozen_backbone:
            self.method.net.backbone.load_state_dict(load_backbone(config.frozen_backbone).state_dict())
        self.notes = self._initial_notes()
        if obstacle:
            self.notes.append(f"not compiled: compilation failed on this machine ({obstacle})")

    def record(self, folder: RunFolder) -> Record:
        """Learn the tasks that are left and return the complete record."""
        self.folder = folder
        self.trainer = TaskTrainer(
            self.method,
            folder,
            self.config.seed,
            self.environment,
            self._after_epoch,
            on_step=self.profiler.step if self.profiler else None,
            notes=self.notes,
            frozen=[self.method.net.backbone] if self.config.frozen_backbone else [],
        )
        if finished := self.world.share(self._finished):
            return Record.from_json(finished)
        done, record = folder.last_task(len(self.protocol)), None
        if done is not None:
            with restoring("the checkpoint of the last finished task"):
                self.trainer.note_environment_change(done)
                self.method.restore(done["method"])
                self.results = [TaskResult.from_json(result) for result in done["results"]]
                if done["file"] != f"task-{len(self.results) - 1}.pt":
                    raise ValueError(f"{done['file']} holds the results of {len(self.results)} tasks")
                record = self._write_record()
        for index in range(len(self.results), len(self.protocol)):
            self._learn(self.protocol.task(index))
            record = self._write_record()
        assert record, "a protocol has at least one task"
        return record

    def _finished(self) -> dict[str, Any] | None:
        record = finished_record(self.folder.path, self.config)
        return record.to_json() if record else None

    def _learn(self, task: Task) -> None:
        reset_peak_memory(self.device)
        if self.profiler:
            self.profiler.begin(task.index)
        self._finish(task, self.trainer.learn(task, self._selector(task)))

    def _finish(self, task: Task, seconds: float) -> None:
        sizes = self.config.task_sizes[: task.index + 1]
        test = self.protocol.test(task.num_seen)
        readings = evaluate(self.method, test, task.num_seen)
        cost = measure_cost(self.method, input_shape(self.config, self.setting))
        if (note := budget_note(self.config, cost.total_bytes)) and note not in self.notes:
            self.notes.append(note)
        result = TaskResult(
            readings={name: ReadingFigures.of(found, sizes) if found else None for name, found in readings.items()},
            imbalance=imbalance_ratio(self.method.counts),
            coherence=_coherence(self.method.net.head.vectors),
            exemplars=len(self.method.memory.samples),
            seconds=seconds,
            peak_memory_mb=peak_memory_mb(self.device),
            cost=cost,
        )
        self.results = [*(earlier.without_confusion() for earlier in self.results), result]
        rows = [r.to_json() for r in self.results]
        state = {"method": self.method.state(), "results": rows, "environment": self.environment, "notes": self.notes}
        if task.index == len(self.protocol) - 1 and readings["head"]:
            content = sketch(self.method, test, task.num_old, task.num_seen, readings["head"].confusion)
            if self.world.is_first:
                self.folder.check()
                write_sketch(self.folder.path, content)
        self._compare()
        self.folder.save_task(task.index, state)
        if self.on_progress:
            head, nme, _ = (row.top1 if (row := result.readings[name]) else None for name in READINGS)
            self.on_progress(RunProgress(task.index, len(self.protocol), "done", 0, 1, {}, head, nme))

    def _compare(self) -> None:
        """Make sure that all processes have learned the same, before anything is saved."""
        if self.world.size > 1:
            self.world.require_equal("weights", weights_sha256(self.method.net.state_dict()))
            self.world.require_equal("exemplars", weights_sha256(self.method.state()["memory"]))

    def _after_epoch(self, task: Task, stage: str, result: EpochResult) -> None:
        if self.on_progress:
            place = task.index, len(self.protocol), stage
            self.on_progress(RunProgress(*place, result.epoch, result.epochs, result.losses))

    def _selector(self, task: Task) -> EpochSelector | None:
        """The rule that selects an epoch. `test` is the official code's: it uses test data, and the record says so."""
        if self.config.select == "last":
            return None
        honest = self.config.select == "validation"
        samples = (self.protocol.validation if honest else self.protocol.test)(task.num_seen)
        return EpochSelector(lambda: head_accuracy(self.method, samples), include_last=honest)

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
        if self.world.is_first:
            self.folder.check()
            record.write(self.folder.path)
        return record

    def _initial_notes(self) -> list[str]:
        """What a reader of the record must know, as far as config and data determine it."""
        notes = list(self.data_notes)
        if self.config.select == "test":
            notes.append("the epoch of each task was selected on TEST data (the official code's rule)")
        if self.config.select == "validation":
            notes.append("the epoch of each task was selected on held-out training images of all classes seen")
        budget, classes = self.method.memory.budget, self.setting.num_classes
        slots = budget.capacity(classes, self.setting.image_bytes, self.method.net.num_bytes)
        if self.method.uses_memory and slots < classes:
            lost = "some have none" if budget.sharing == "exact" else f"from {slots + 1} classes on, none has any"
            notes.append(f"memory holds {slots} exemplars for {classes} classes: {lost}")
        return notes


def _coherence(vectors: Tensor) -> float | None:
    return largest_cosine(F.normalize(vectors.detach().cpu())) if len(vectors) > 1 else None
