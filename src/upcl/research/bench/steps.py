"""Whole steps and whole epochs: against the bare arithmetic, which is the limit, and against the plain way."""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

from upcl.core.types import Stage
from upcl.data import Dataset, load_dataset
from upcl.methods.registry import build_method
from upcl.nets import make_backbone
from upcl.research.config import Request, resolve
from upcl.research.protocol import Protocol
from upcl.research.run import SAVE_SECONDS, make_setting
from upcl.training.checkpoints import save_checkpoint
from upcl.training.engine import EpochResult, fit

from .plain import PlainHead, PlainImages, PlainLinear, plain_epoch
from .timing import Row, interleaved, overhead, speedup

CPU = torch.device("cpu")
BATCH = 128
PYCIL_WORKERS = 8
LIMITS = {"small": 1.25, "resnet18-7x7": 1.10}  # over the bare step, in the first task
WITH_TEACHER = 1.10  # over the bare step and one forward more
STEPS_DATA = "synthetic:classes=32,size=32,train=16,test=1"
EPOCHS: dict[tuple[str, str, int], float | None] = {
    ("upcl", "small", 8): 3.0,
    ("upcl", "small", 32): None,
    ("upcl", "resnet18-7x7", 32): 1.4,
    ("icarl", "small", 8): None,
    ("wa", "small", 8): None,
}


class Saves:
    """The rule of real runs: a checkpoint every thirty seconds, here with one at the beginning."""

    def __init__(self) -> None:
        self.last = -math.inf

    def due(self) -> bool:
        now = time.monotonic()
        is_due = now - self.last >= SAVE_SECONDS
        self.last = now if is_due else self.last
        return is_due


class Lesson:
    """A method at the beginning of a task, ready to train an epoch of it again and again."""

    def __init__(self, name: str, backbone: str, data: str, *, task: int, batch_size: int = BATCH) -> None:
        self.dataset: Dataset = load_dataset(data)
        options = {"recipe.epochs": 1, "recipe.batch_size": batch_size, "recipe.min_steps": 0, "recipe.lr": 1e-3}
        request = Request(
            method=name, data=data, tasks=2, backbone=backbone, memory="128", recipe="quick", options=options
        )
        config = resolve(request, self.dataset, request.method_class)
        setting = make_setting(config, self.dataset, CPU)
        self.method = build_method(request.method_class, config.options, setting, config.seed)
        protocol = Protocol(self.dataset, config.task_sizes, config.order_seed)
        for index in range(task):
            for _ in self.method.learn(protocol.task(index)):
                pass  # untrained: only the time of a later task is wanted
        self.stage: Stage = next(iter(self.method.learn(protocol.task(task))))
        self.saves = Saves()
        self.ready = self.dataset.transform.test(self.stage.data.inputs).split(batch_size)

    def epoch(self, folder: Path | None = None) -> None:
        """Ours: drawing, augmenting, training, logging; and with a folder, a log and a checkpoint on disk."""

        def on_epoch(end: EpochResult) -> None:
            if folder:
                (folder / "events.jsonl").write_text(json.dumps(dict(end.losses)))
                if self.saves.due():
                    save_checkpoint(folder / "checkpoint.pt", end.state())

        fit(
            self.method.net,
            self.stage,
            transform=self.dataset.transform,
            device=CPU,
            seed_path=(0,),
            on_epoch=on_epoch,
        )

    def bare(self) -> None:
        """The limit: forward, backward and update on batches that are ready; with a teacher, one more forward."""
        net = self.method.net
        optimizer = torch.optim.SGD(self.stage.params, lr=1e-3, momentum=0.9, weight_decay=5e-4)
        net.train()
        for inputs in self.ready:
            if self.method.teacher:
                with torch.inference_mode():
                    net.eval()
                    net.features(inputs)
                    net.train()
            optimizer.zero_grad()
            net.features(inputs).square().mean().backward()
            optimizer.step()


def steps(repeats: int) -> Iterator[Row]:
    """A step of UPCL, iCaRL and WA over the bare step, in the first task and with a teacher."""
    for backbone, limit in LIMITS.items():
        for name in ("upcl", "icarl", "wa"):
            for task, title in ((0, "first task"), (1, "with teacher")):
                lesson = Lesson(name, backbone, STEPS_DATA, task=task)
                times = interleaved({"ours": lesson.epoch, "bare": lesson.bare}, repeats)
                wanted = WITH_TEACHER if task else limit
                yield overhead("steps", f"{name}, {backbone}, {title}", times, wanted if name == "upcl" else None)


def epochs(repeats: int) -> Iterator[Row]:
    """An epoch, end to end, against the plain way: with eight loader workers, as PyCIL's constants say, and with none,
    which is better on few cores."""
    for (name, backbone, size), wanted in EPOCHS.items():
        with tempfile.TemporaryDirectory() as folder:
            rivals = Rivals(name, backbone, f"synthetic:classes=40,size={size},train=50,test=1", Path(folder))
            plain = {f"plain, {workers} workers": partial(rivals.plain, workers) for workers in (PYCIL_WORKERS, 0)}
            times = interleaved({"ours": rivals.ours, **plain}, repeats)
        for rival, target in zip(plain, (wanted, None), strict=True):
            told = {"ours": times["ours"], rival: times[rival]}
            yield speedup("epochs", f"{name}, {backbone}, {size} px", told, target)


class Rivals:
    """The same epoch of the same images, our way and the plain way; both save their state every thirty seconds.

    UPCL's first task, where it matches all its classes; the others' second, where they have a teacher.
    """

    def __init__(self, name: str, backbone: str, data: str, folder: Path) -> None:
        self.folder, self.lesson = folder, Lesson(name, backbone, data, task=0 if name == "upcl" else 1)
        samples, transform, task = self.lesson.stage.data, self.lesson.dataset.transform, self.lesson.method.task
        pixels = samples.inputs.permute(0, 2, 3, 1).contiguous().numpy()
        self.images = PlainImages(pixels, samples.labels.numpy(), transform.mean, transform.std)
        self.saves: dict[int, Saves] = defaultdict(Saves)
        self.net = make_backbone(backbone)
        self.head = (
            PlainHead(self.lesson.method.net.head.frame, self.lesson.method.counts)
            if name == "upcl"
            else PlainLinear(self.net, self.net.dim, task.num_old, task.num_seen)
        )

    def ours(self) -> None:
        self.lesson.epoch(self.folder)

    def plain(self, workers: int) -> None:
        optimizer = plain_epoch(self.net, self.head, self.images, BATCH, workers)
        if self.saves[workers].due():
            state = {"net": self.net.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, self.folder / "plain.pt")
