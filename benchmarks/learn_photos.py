"""The default of `upcl learn` against training from scratch, and frozen features against fine-tuning.

    UPCL_DATA=FOLDER python benchmarks/learn_photos.py default     # FOLDER holds tiny-imagenet-200: an hour
    UPCL_DATA=FOLDER python benchmarks/learn_photos.py border      # FOLDER holds cifar-100-python: an hour

`default`: five times 20 classes of Tiny-ImageNet, 40 photos each, in updates of 10, 5 and 5 classes.
`border`: ten classes of CIFAR-100 enlarged to 96 pixels, with more and more photos of each. Tables are printed row by
row.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from upcl.data import load_dataset
from upcl.model.learner import Learner
from upcl.model.options import LearnOptions

LOTS, NUM_PHOTOS, NUM_NEW, NUM_SETS = (10, 5, 5), 40, 10, 5
BORDER = (20, 50, 150, 450)  # photos per class
FINETUNE = LearnOptions(finetune=True, size=96, epochs=10, max_forgetting=None)


def copy_tiny_imagenet(root: Path, number: int) -> list[Path]:
    """Copy photos of a set of classes to LOT/CLASS, and those that are never shown to new/CLASS; return the lots."""
    source = Path(os.environ["UPCL_DATA"]) / "tiny-imagenet-200"
    wnids = (source / "wnids.txt").read_text().split()[number * sum(LOTS) : (number + 1) * sum(LOTS)]
    for index, wnid in enumerate(wnids):
        lot = sum(index >= sum(LOTS[: k + 1]) for k in range(len(LOTS)))
        for number, photo in enumerate(sorted((source / "train" / wnid / "images").iterdir())[: NUM_PHOTOS + NUM_NEW]):
            folder = root / (str(lot) if number < NUM_PHOTOS else "new") / wnid
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(photo, folder)
    return [root / str(lot) for lot in range(len(LOTS))]


def write_cifar(root: Path, num: int) -> list[Path]:
    """Write photos of ten classes to photos/CLASS and new/CLASS; return the only lot."""
    data = load_dataset("cifar100")
    for part, samples, limit in (("photos", data.train, num), ("new", data.test, 100)):
        for label in range(10):
            folder = root / part / data.classes[label]
            folder.mkdir(parents=True)
            for number, pixels in enumerate(samples.inputs[samples.labels == label][:limit]):
                Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(folder / f"{number}.png")
    return [root / "photos"]


def measure(title: str, lots: list[Path], options: LearnOptions) -> tuple[float, float, float]:
    """Learn lot after lot and print a row: accuracy on held-out photos and on photos never shown, and seconds."""
    with tempfile.TemporaryDirectory(prefix="upcl-") as folder:
        os.environ["UPCL_CACHE"] = folder  # no photo was seen before
        start, learner = time.monotonic(), Learner(Path(folder) / "model.upcl")
        for lot in lots:
            learner.learn(lot, options)
        seconds = time.monotonic() - start
        photos = sorted(path for path in (lots[0].parent / "new").rglob("*") if path.is_file())
        found = learner.predictor.predict_files(photos, top=1)
        right = [
            result.prediction is not None and result.prediction.names[0] == photo.parent.name
            for result, photo in zip(found, photos, strict=True)
        ]
    bundle = learner.require_bundle()
    figures = float(bundle.history[-1].accuracy[bundle.state.reading] or 0), 100 * float(np.mean(right)), seconds
    print_row(f"{title}, {bundle.spec.method}", figures)
    return figures


def print_row(title: str, figures: tuple[float, float, float]) -> None:
    print(f"| {title} | {figures[0]:.1f} | {figures[1]:.1f} | {figures[2]:.0f} |", flush=True)


def compare_default(root: Path) -> None:
    """Measure the default and training from scratch on every set of classes, then print the means."""
    ways = {
        "default": LearnOptions(),
        "from scratch": LearnOptions(method="upcl", backbone="medium", max_forgetting=None),
    }
    found: dict[str, list[tuple[float, float, float]]] = {way: [] for way in ways}
    for number in range(NUM_SETS):
        lots = copy_tiny_imagenet(root / str(number), number)
        for way, options in ways.items():
            found[way].append(measure(f"classes {number}: {way}", lots, options))
    for way, figures in found.items():
        held_out, never_shown, seconds = np.mean(figures, axis=0)
        print_row(f"mean: {way}", (held_out, never_shown, seconds))


def compare_finetuning(root: Path) -> None:
    """Measure frozen features and fine-tuning with more and more photos."""
    for num in BORDER:
        lots = write_cifar(root / str(num), num)
        measure(f"{num} photos per class: frozen", lots, LearnOptions(size=96))
        measure(f"{num} photos per class: fine-tuned", lots, FINETUNE)


if __name__ == "__main__":
    print("| | held-out, % | never shown, % | seconds |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="upcl-") as folder:
        {"default": compare_default, "border": compare_finetuning}[sys.argv[1]](Path(folder))
