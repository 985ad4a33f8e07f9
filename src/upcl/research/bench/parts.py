"""The parts of a run, each against the plain way or with its own target."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from sklearn.datasets import load_sample_image

from upcl.core.frames import extend_gaussian
from upcl.core.losses import supervised_contrast
from upcl.core.matching import optimal_assignment
from upcl.core.memory import herding
from upcl.data.io.crops import Photos
from upcl.data.transforms import Brightness, Flip, PadCrop, Transform
from upcl.nets import PrototypeHead, frozen_copy
from upcl.training.checkpoints import save_checkpoint
from upcl.training.evaluate import evaluate

from .plain import PlainHead, PlainImages, plain_contrast, plain_herding
from .steps import Lesson
from .timing import Row, Work, duration, interleaved, one_thread, overhead, speedup

MANY = 20
LESSON = "synthetic:classes=32,size=32,train=16,test=8"


def parts(repeats: int) -> Iterator[Row]:
    """Augmentation, teacher, assignment, contrast, herding, evaluation, checkpoint, start-up, decoding."""
    yield _augmentation(repeats)
    yield _teacher(repeats)
    yield from _assignment(repeats)
    yield _contrast(repeats)
    yield _herding(repeats)
    yield _evaluation(repeats)
    yield _checkpoint(repeats)
    yield _start_up(repeats)
    yield from _decoding(repeats)


def _augmentation(repeats: int) -> Row:
    images = torch.randint(0, 256, (512, 3, 32, 32), dtype=torch.uint8)
    mean, std = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
    transform = Transform(mean, std, (PadCrop(4), Flip(0.5), Brightness(63 / 255)))
    plain = PlainImages(images.permute(0, 2, 3, 1).numpy().copy(), np.zeros(512), mean, std)
    with one_thread():
        times = interleaved(
            {
                "batches": lambda: [transform.train(part) for part in images.split(128)],
                "image by image": lambda: [
                    torch.stack([plain[i][0] for i in range(k, k + 128)]) for k in range(0, 512, 128)
                ],
            },
            2 * repeats,
        )
    return speedup("parts", "augmentation, 512 images, one core", times, 4.0)


def _teacher(repeats: int) -> Row:
    lesson = Lesson("upcl", "resnet18-7x7", LESSON, task=0)
    net, folded = lesson.method.net.eval(), frozen_copy(lesson.method.net)
    inputs = lesson.ready[0]

    def forward(of: torch.nn.Module) -> Work:
        def work() -> None:
            with torch.no_grad():
                of(inputs)

        return work

    times = interleaved({"folded": forward(folded), "as trained": forward(net)}, 2 * repeats)
    return speedup("parts", "teacher's forward, resnet18-7x7", times)


def many_times(work: Work) -> Work:
    """Short work repeated, so that waking threads up does not count."""

    def repeated() -> None:
        for _ in range(MANY):
            work()

    return repeated


def _head(num_classes: int, dim: int = 512) -> PrototypeHead:
    torch.manual_seed(0)
    head = PrototypeHead(dim, extend_frame=extend_gaussian)
    head.grow(num_classes)
    return head


def _assignment(repeats: int) -> Iterator[Row]:
    unit, labels = F.normalize(torch.randn(128, 512)), torch.randint(0, 100, (128,))
    head, plain = _head(100), PlainHead(_head(100).frame, torch.ones(100))

    def ours() -> None:
        head.update_centroids(unit, labels, 0.9)
        head.assign(0)

    works = {"vectorised": many_times(ours), "class by class": many_times(lambda: plain.match(unit, labels))}
    times = interleaved(works, repeats)
    each = [seconds / MANY for seconds in times["vectorised"]]
    yield duration("parts", "centroids and assignment (solved anew), 100 classes", each, 1.0)
    yield speedup("parts", "centroids and assignment, 100 classes", times)
    many, lesson = _head(1000), Lesson("upcl", "resnet18-7x7", LESSON, task=0)
    wide = torch.randint(0, 1000, (128,))
    similarity = many.centroids @ many.frame.T + 0.5 * torch.rand(1000, 1000)

    def solve() -> None:
        many.update_centroids(unit, wide, 0.9)
        optimal_assignment(similarity)

    times = interleaved({"solved anew": solve, "bare epoch of two steps": lesson.bare}, repeats)
    yield overhead("parts", "assignment of 1,000 new classes over learning", times, 0.5)


def _contrast(repeats: int) -> Row:
    unit, labels = F.normalize(torch.randn(512, 512)), torch.randint(0, 100, (512,))

    def graded(loss: Work) -> Work:
        rows = unit.clone().requires_grad_()
        return lambda: torch.autograd.grad(loss(rows, labels, 0.07), rows)  # type: ignore[call-arg]

    times = interleaved({"ours": graded(supervised_contrast), "masks": graded(plain_contrast)}, 2 * repeats)  # type: ignore[arg-type]
    return speedup("parts", "supervised contrast and gradient, batch 512", times)


def _herding(repeats: int) -> Row:
    features = torch.randn(500, 512).relu()
    unit, array = F.normalize(features), features.double().numpy()
    times = interleaved(
        {"ours": lambda: herding(unit, 200), "plain loop": lambda: plain_herding(array, 200)}, 2 * repeats
    )
    return speedup("parts", "herding, 200 of 500 images", times, 10.0)


def _evaluation(repeats: int) -> Row:
    lesson = Lesson("upcl", "small", LESSON, task=1)
    method, test = lesson.method, lesson.dataset.test

    def forward() -> None:
        method.extract(test)
        method.extract(method.memory.samples)

    times = interleaved({"both readings": lambda: evaluate(method, test, 32), "bare forwards": forward}, repeats)
    return overhead("parts", "evaluation of 256 images, both readings", times)


def _checkpoint(repeats: int) -> Row:
    state = {"net": Lesson("upcl", "resnet18-7x7", LESSON, task=0).method.net.state_dict()}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        times = interleaved(
            {
                "safe": lambda: save_checkpoint(place / "a.pt", state),
                "torch.save": lambda: torch.save(state, place / "b.pt"),
            },
            repeats,
        )
    return overhead("parts", "checkpoint of 45 MB: digest, flush to disk, rename", times)


def _start_up(repeats: int) -> Row:
    def command(*words: str) -> Work:
        return lambda: subprocess.run([sys.executable, *words], check=True, capture_output=True, env=dict(os.environ))

    times = interleaved({"upcl --help": command("-m", "upcl", "--help"), "python": command("-c", "pass")}, repeats)
    return duration("parts", "start-up of upcl --help", times["upcl --help"])


def _decoding(repeats: int) -> Iterator[Row]:
    """Photographs that come with scikit-learn, as ImageNet and as a telephone would store them."""
    shown = Image.fromarray(load_sample_image("flower.jpg"))
    for width, height in ((500, 375), (4000, 3000)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "photo.jpg"
            shown.resize((width, height)).save(path, quality=90)
            photos = Photos.from_files([path], 224, "photo")
            whole = path.read_bytes()

            def plain(content: bytes = whole, box: tuple[int, int] = (width, height)) -> None:
                side = min(box) * 224 // 256
                left, top = (box[0] - side) // 2, (box[1] - side) // 2
                image = Image.open(io.BytesIO(content)).convert("RGB").crop((left, top, left + side, top + side))
                np.asarray(image.resize((224, 224), Image.Resampling.BILINEAR))

            times = interleaved({"no finer than needed": partial(photos.cut, 0, None), "whole": plain}, repeats)
        yield speedup("parts", f"decoding to 224 px, {width} x {height}", times)
