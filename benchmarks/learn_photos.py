"""The default of `upcl learn` against training from scratch, and frozen features against fine-tuning.

    UPCL_DATA=FOLDER python benchmarks/learn_photos.py default     # FOLDER holds tiny-imagenet-200: half an hour
    UPCL_DATA=FOLDER python benchmarks/learn_photos.py border      # FOLDER holds cifar-100-python: an hour

`default`: 20 classes of Tiny-ImageNet, 40 photos each, in updates of 10, 5 and 5 classes. `border`: ten classes of
CIFAR-100 enlarged to 96 pixels, with more and more photos of each. Tables are printed row by row.
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

LOTS, NUM_PHOTOS, NUM_NEW = (10, 5, 5), 40, 10
BORDER = (20, 50, 150, 450)  # photos per class
FINETUNE = LearnOptions(finetune=True, size=96, epochs=10, max_forgetting=None)


def copy_tiny_imagenet(root: Path) -> list[Path]:
    """Copy photos to LOT/CLASS, and those that are never shown to new/CLASS; return the lots."""
    source = Path(os.environ["UPCL_DATA"]) / "tiny-imagenet-200"
    wnids = (source / "wnids.txt").read_text().split()[: sum(LOTS)]
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


def measure(title: str, lots: list[Path], options: LearnOptions) -> None:
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
    held_out = bundle.history[-1].accuracy[bundle.state.reading]
    print(
        f"| {title}, {bundle.spec.method} | {held_out:.1f} | {100 * np.mean(right):.1f} | {seconds:.0f} |", flush=True
    )


def main(what: str) -> None:
    print("| | held-out, % | never shown, % | seconds |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="upcl-") as root:
        if what == "default":
            lots = copy_tiny_imagenet(Path(root))
            measure("default", lots, LearnOptions())
            measure("from scratch", lots, LearnOptions(method="upcl", backbone="medium", max_forgetting=None))
            return
        for num in BORDER:
            lots = write_cifar(Path(root) / str(num), num)
            measure(f"{num} photos per class: frozen", lots, LearnOptions(size=96))
            measure(f"{num} photos per class: fine-tuned", lots, FINETUNE)


if __name__ == "__main__":
    main(sys.argv[1])
