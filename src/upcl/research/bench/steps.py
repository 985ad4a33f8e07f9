"""Complete steps and epochs, compared with their lower limit and with a plain implementation."""

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

from upcl.core.timing import Measurement, overhead, speedup, time_in_turns
from upcl.core.types import Stage
from upcl.data import Dataset
from upcl.methods.registry import build_method
from upcl.nets import make_backbone
from upcl.research.config import Request, resolve
from upcl.research.protocol import Protocol
from upcl.research.run import SAVE_SECONDS
from upcl.research.setting import make_setting
from upcl.training.checkpoints import save_checkpoint
from upcl.training.engine import EpochResult, fit

from .plain import PlainImages, PlainLinearHead, PlainPrototypeHead, plain_epoch

CPU = torch.device("cpu")
BATCH_SIZE = 128
PYCIL_WORKERS = 8
MAX_OVERHEAD = {"small": 1.25, "resnet18-7x7": 1.10}  # over the bare step, in the first task
MAX_OVERHEAD_WITH_TEACHER = 1.10  # over the bare step and one more forward pass
STEPS_DATA = "synthetic:classes=32,size=32,train=16,test=1"
MIN_SPEEDUP: dict[tuple[str, str, int], float | None] = {  # method, backbone, image size
    ("upcl", "small", 8): 3.0,
    ("upcl", "small", 32): None,
    ("upcl", "resnet18-7x7", 32): 1.4,
    ("icarl", "small", 8): None,
    ("wa", "small", 8): None,
}


class CheckpointTimer:
    """Decides when a checkpoint is due, as in a run: every thirty seconds, and here also at the start.

    Example:
        >>> timer = CheckpointTimer()
        >>> timer.is_due(), timer.is_due()
        (True, False)
    """

    def __init__(self) -> None:
        self.last = -math.inf

    def is_due(self) -> bool:
        """Whether a checkpoint is due; if so, the next one is due thirty seconds later."""
        now = time.monotonic()
        due = now - self.last >= SAVE_SECONDS
        self.last = now if due else self.last
        return due


class BenchTask:
    """A method at the start of a task, ready to train the same epoch repeatedly.

    Args:
        method: name of the method.
        backbone: name of the feature extractor.
        data: name of the data set, which is split into two tasks.
        task: index of the task; earlier tasks are passed without training.
        batch_size: images per step.

    Example:
        >>> task = BenchTask("finetune", "small", "synthetic:classes=4,train=4,test=1", task=1, batch_size=4)
        >>> task.method.task.index, len(task.batches)
        (1, 2)
    """

    def __init__(self, method: str, backbone: str, data: str, *, task: int, batch_size: int = BATCH_SIZE) -> None:
        options = {"recipe.epochs": 1, "recipe.batch_size": batch_size, "recipe.min_steps": 0, "recipe.lr": 1e-3}
        request = Request(
            method=method,
            data=data,
            tasks=2,
            backbone=backbone,
            memory="128",
            recipe="quick",
            precision="float32",
            options=options,
        )
        self.dataset: Dataset = request.load_dataset()
        config = resolve(request, self.dataset, request.method_class)
        setting = make_setting(config, self.dataset, CPU)
        self.method = build_method(request.method_class, config.options, setting, config.seed)
        protocol = Protocol(self.dataset, config.task_sizes, config.order_seed)
        for index in range(task):
            for _ in self.method.learn(protocol.task(index)):
                pass  # not trained: only the time of the later task matters
        self.stage: Stage = next(iter(self.method.learn(protocol.task(task))))
        self.checkpoints = CheckpointTimer()
        self.batches = self.dataset.transform.test(self.stage.data.inputs).split(batch_size)

    def train_epoch(self, folder: Path | None = None) -> None:
        """Train for one epoch the way a run does.

        Args:
            folder: where to write a log and checkpoints; without it nothing is written.
        """

        def on_epoch(end: EpochResult) -> None:
            if folder:
                (folder / "events.jsonl").write_text(json.dumps(dict(end.losses)))
                if self.checkpoints.is_due():
                    save_checkpoint(folder / "checkpoint.pt", end.state())

        transform = self.dataset.transform
        fit(self.method.net, self.stage, transform=transform, device=CPU, seed_path=(0,), on_epoch=on_epoch)

    def bare_epoch(self) -> None:
        """The limit: forward, backward and update on prepared batches; with a teacher, one more forward pass."""
        net = self.method.net
        optimizer = torch.optim.SGD(self.stage.params, lr=1e-3, momentum=0.9, weight_decay=5e-4)
        net.train()
        for inputs in self.batches:
            if self.method.teacher:
                with torch.inference_mode():
                    net.eval()
                    net.features(inputs)
                    net.train()
            optimizer.zero_grad()
            net.features(inputs).square().mean().backward()
            optimizer.step()


def measure_steps(repeats: int) -> Iterator[Measurement]:
    """Compare the steps of UPCL, iCaRL and WA with the bare step, in the first task and with a teacher.

    Args:
        repeats: number of rounds.

    Example:
        >>> next(measure_steps(repeats=1)).name  # doctest: +SKIP
        'upcl, small, first task'
    """
    for backbone, limit in MAX_OVERHEAD.items():
        for method in ("upcl", "icarl", "wa"):
            for index, title in ((0, "first task"), (1, "with teacher")):
                task = BenchTask(method, backbone, STEPS_DATA, task=index)
                times = time_in_turns({"ours": task.train_epoch, "bare": task.bare_epoch}, repeats)
                target = MAX_OVERHEAD_WITH_TEACHER if index else limit
                name = f"{method}, {backbone}, {title}"
                yield overhead("steps", name, times, target if method == "upcl" else None)


def measure_epochs(repeats: int) -> Iterator[Measurement]:
    """Compare epochs end to end with the plain implementation: with eight loader workers, as PyCIL configures it, and
    with none, which is faster on few cores.

    Args:
        repeats: number of rounds.

    Example:
        >>> next(measure_epochs(repeats=1)).name  # doctest: +SKIP
        'upcl, small, 8 px'
    """
    for (method, backbone, size), target in MIN_SPEEDUP.items():
        with tempfile.TemporaryDirectory() as folder:
            data = f"synthetic:classes=40,size={size},train=50,test=1"
            comparison = EpochComparison(method, backbone, data, Path(folder))
            plain = {
                f"plain, {num_workers} workers": partial(comparison.train_plain, num_workers)
                for num_workers in (PYCIL_WORKERS, 0)
            }
            times = time_in_turns({"ours": comparison.train_ours, **plain}, repeats)
        for other, other_target in zip(plain, (target, None), strict=True):
            pair = {"ours": times["ours"], other: times[other]}
            yield speedup("epochs", f"{method}, {backbone}, {size} px", pair, other_target)


class EpochComparison:
    """The same epoch of the same images by our code and by the plain one; both save their state every thirty seconds.

    UPCL trains its first task, in which it matches all its classes; the others their second, in which they have a
    teacher.

    Args:
        method: name of the method.
        backbone: name of the feature extractor.
        data: name of the data set.
        folder: where to write checkpoints.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     comparison = EpochComparison("upcl", "small", "synthetic:classes=4,train=4,test=1", Path(folder))
        ...     comparison.train_ours()
        ...     comparison.train_plain(num_workers=0)
    """

    def __init__(self, method: str, backbone: str, data: str, folder: Path) -> None:
        self.folder, self.task = folder, BenchTask(method, backbone, data, task=0 if method == "upcl" else 1)
        samples, transform, task = self.task.stage.data, self.task.dataset.transform, self.task.method.task
        pixels = samples.inputs.permute(0, 2, 3, 1).contiguous().numpy()
        self.images = PlainImages(pixels, samples.labels.numpy(), transform.mean, transform.std)
        self.checkpoints: dict[int, CheckpointTimer] = defaultdict(CheckpointTimer)
        self.net = make_backbone(backbone)
        self.head = (
            PlainPrototypeHead(self.task.method.net.head.frame, self.task.method.counts)
            if method == "upcl"
            else PlainLinearHead(self.net, self.net.dim, task.num_old, task.num_seen)
        )

    def train_ours(self) -> None:
        """Train for one epoch with our code."""
        self.task.train_epoch(self.folder)

    def train_plain(self, num_workers: int) -> None:
        """Train for one epoch with the plain implementation.

        Args:
            num_workers: processes of the data loader.
        """
        optimizer = plain_epoch(self.net, self.head, self.images, BATCH_SIZE, num_workers)
        if self.checkpoints[num_workers].is_due():
            state = {"net": self.net.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, self.folder / "plain.pt")
