"""Parts of a run, each compared with a plain implementation or with its own target."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from sklearn.datasets import load_sample_image
from torch import Tensor

from upcl.core.losses import supervised_contrast
from upcl.core.matching import optimal_assignment
from upcl.core.memory import herding
from upcl.core.timing import Measurement, Workload, duration, overhead, single_thread, speedup, time_in_turns
from upcl.data.io.crops import Photos
from upcl.data.transforms import Brightness, Flip, PadCrop, Transform
from upcl.nets import frozen_copy
from upcl.training.checkpoints import save_checkpoint
from upcl.training.evaluate import evaluate

from .growth import make_head
from .plain import PlainImages, PlainPrototypeHead, plain_contrast, plain_herding
from .steps import BenchTask

REPETITIONS = 20
DATA = "synthetic:classes=32,size=32,train=16,test=8"


def measure_parts(repeats: int) -> Iterator[Measurement]:
    """Measure augmentation, teacher, assignment, contrast, herding, evaluation, checkpoint, start-up and decoding.

    Args:
        repeats: number of rounds.

    Example:
        >>> next(measure_parts(repeats=1)).name  # doctest: +SKIP
        'augmentation, 512 images, one core'
    """
    yield _augmentation(repeats)
    yield _teacher(repeats)
    yield from _assignment(repeats)
    yield _contrast(repeats)
    yield _herding(repeats)
    yield _evaluation(repeats)
    yield _checkpoint(repeats)
    yield _start_up(repeats)
    yield from _decoding(repeats)


def _augmentation(repeats: int) -> Measurement:
    images = torch.randint(0, 256, (512, 3, 32, 32), dtype=torch.uint8)
    mean, std = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
    transform = Transform(mean, std, (PadCrop(4), Flip(0.5), Brightness(63 / 255)))
    plain = PlainImages(images.permute(0, 2, 3, 1).numpy().copy(), np.zeros(512), mean, std)
    with single_thread():
        times = time_in_turns(
            {
                "batches": lambda: [transform.train(part) for part in images.split(128)],
                "image by image": lambda: [
                    torch.stack([plain[i][0] for i in range(k, k + 128)]) for k in range(0, 512, 128)
                ],
            },
            2 * repeats,
        )
    return speedup("parts", "augmentation, 512 images, one core", times, 4.0)


def _teacher(repeats: int) -> Measurement:
    task = BenchTask("upcl", "resnet18-7x7", DATA, task=0)
    net, folded = task.method.net.eval(), frozen_copy(task.method.net)
    inputs = task.batches[0]

    def forward(module: torch.nn.Module) -> Workload:
        def run_once() -> None:
            with torch.no_grad():
                module(inputs)

        return run_once

    times = time_in_turns({"folded": forward(folded), "as trained": forward(net)}, 2 * repeats)
    return speedup("parts", "forward pass of the teacher, resnet18-7x7", times)


def repeat(workload: Workload) -> Workload:
    """Repeat a short workload, so that waking up threads does not count.

    Args:
        workload: what to repeat.

    Example:
        >>> calls = []
        >>> repeat(lambda: calls.append(1))()
        >>> len(calls)
        20
    """

    def repeated() -> None:
        for _ in range(REPETITIONS):
            workload()

    return repeated


def _assignment(repeats: int) -> Iterator[Measurement]:
    unit, labels = F.normalize(torch.randn(128, 512)), torch.randint(0, 100, (128,))
    head, plain = make_head(100), PlainPrototypeHead(make_head(100).frame, torch.ones(100))

    def ours() -> None:
        head.update_centroids(unit, labels, 0.9)
        head.assign(0)

    workloads = {"vectorised": repeat(ours), "class by class": repeat(lambda: plain.match(unit, labels))}
    times = time_in_turns(workloads, repeats)
    seconds_each = [seconds / REPETITIONS for seconds in times["vectorised"]]
    yield duration("parts", "centroids and assignment (solved from scratch), 100 classes", seconds_each, 1.0)
    yield speedup("parts", "centroids and assignment, 100 classes", times)
    many, task = make_head(1000), BenchTask("upcl", "resnet18-7x7", DATA, task=0)
    wide = torch.randint(0, 1000, (128,))
    similarity = many.centroids @ many.frame.T + 0.5 * torch.rand(1000, 1000)

    def solve() -> None:
        many.update_centroids(unit, wide, 0.9)
        optimal_assignment(similarity)

    times = time_in_turns({"solved from scratch": solve, "bare epoch of two steps": task.bare_epoch}, repeats)
    yield overhead("parts", "assignment of 1,000 new classes, relative to training", times, 0.5)


def _contrast(repeats: int) -> Measurement:
    unit, labels = F.normalize(torch.randn(512, 512)), torch.randint(0, 100, (512,))

    def with_gradient(loss: Callable[[Tensor, Tensor, float], Tensor]) -> Workload:
        rows = unit.clone().requires_grad_()
        return lambda: torch.autograd.grad(loss(rows, labels, 0.07), rows)

    workloads = {"ours": with_gradient(supervised_contrast), "masks": with_gradient(plain_contrast)}
    times = time_in_turns(workloads, 2 * repeats)
    return speedup("parts", "supervised contrast and gradient, batch 512", times)


def _herding(repeats: int) -> Measurement:
    features = torch.randn(500, 512).relu()
    unit, array = F.normalize(features), features.double().numpy()
    times = time_in_turns(
        {"ours": lambda: herding(unit, 200), "plain loop": lambda: plain_herding(array, 200)}, 2 * repeats
    )
    return speedup("parts", "herding, 200 of 500 images", times, 10.0)


def _evaluation(repeats: int) -> Measurement:
    task = BenchTask("upcl", "small", DATA, task=1)
    method, test = task.method, task.dataset.test

    def forward() -> None:
        method.extract(test)
        method.extract(method.memory.samples)

    times = time_in_turns(
        {"both readings": lambda: evaluate(method, test, 32), "forward passes alone": forward}, repeats
    )
    return overhead("parts", "evaluation of 256 images, both readings", times)


def _checkpoint(repeats: int) -> Measurement:
    state = {"net": BenchTask("upcl", "resnet18-7x7", DATA, task=0).method.net.state_dict()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        times = time_in_turns(
            {
                "safe": lambda: save_checkpoint(path / "a.pt", state),
                "torch.save": lambda: torch.save(state, path / "b.pt"),
            },
            repeats,
        )
    return overhead("parts", "checkpoint of 45 MB: digest, flush to disk, rename", times)


def _start_up(repeats: int) -> Measurement:
    def command(*arguments: str) -> Workload:
        return lambda: subprocess.run(
            [sys.executable, *arguments], check=True, capture_output=True, env=dict(os.environ)
        )

    times = time_in_turns({"upcl --help": command("-m", "upcl", "--help"), "python": command("-c", "pass")}, repeats)
    return duration("parts", "start-up of upcl --help", times["upcl --help"])


def _decoding(repeats: int) -> Iterator[Measurement]:
    """A photograph that comes with scikit-learn, at the size of ImageNet's and of a phone's."""
    photograph = Image.fromarray(load_sample_image("flower.jpg"))
    for width, height in ((500, 375), (4000, 3000)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "photo.jpg"
            photograph.resize((width, height)).save(path, quality=90)
            photos = Photos.from_files([path], 224, "photo")
            encoded = path.read_bytes()

            def plain(content: bytes = encoded, box: tuple[int, int] = (width, height)) -> None:
                side = min(box) * 224 // 256
                left, top = (box[0] - side) // 2, (box[1] - side) // 2
                image = (
                    Image.open(io.BytesIO(content), formats=["JPEG"])
                    .convert("RGB")
                    .crop((left, top, left + side, top + side))
                )
                np.asarray(image.resize((224, 224), Image.Resampling.BILINEAR))

            times = time_in_turns(
                {"reduced resolution": partial(photos.crop, 0, None), "full resolution": plain}, repeats
            )
        yield speedup("parts", f"decoding to 224 px, {width} x {height}", times)
