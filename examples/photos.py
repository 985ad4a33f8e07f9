"""The life of a model of photos: learn, grow, predict, correct, forget and export, next to training from scratch.

    make photos                       # or: python examples/photos.py [FOLDER]

The photos are eight classes of Tiny-ImageNet if FOLDER (by default $UPCL_DATA, or else ../shared/data) holds
tiny-imagenet-200, and otherwise crops of the photographs that scikit-learn and matplotlib ship. It takes
77 s of processor time: three minutes on two cores that other work kept busy, when it was measured.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import matplotlib.cbook
import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_sample_images

from upcl import Learner
from upcl.cli.quiet import quiet_export
from upcl.model.export import export_onnx
from upcl.model.options import LearnOptions
from upcl.model.predictor import NONE_OF_THESE

NUM_PHOTOS, NUM_NEW = 20, 10  # per class: to learn from, and never shown
LOTS = (4, 2, 2)  # classes per update
SCRATCH = LearnOptions(method="upcl", backbone="small", size=32, epochs=2, max_forgetting=None)
REGIONS = {  # crops of photographs, as classes: photograph, top, left, side
    "arcade": (0, 210, 60, 130),
    "lawn": (0, 290, 330, 130),
    "roof": (0, 110, 180, 130),
    "tree": (0, 150, 470, 130),
    "face": (2, 60, 190, 170),
    "uniform": (2, 390, 120, 170),
    "flower": (1, 100, 230, 170),
    "leaves": (1, 20, 20, 170),
}


def write_crops(root: Path) -> None:
    """Write crops of three photographs, shifted, scaled and lit at random: LOT/CLASS/*.jpg and new/CLASS/*.jpg."""
    portrait = np.asarray(Image.open(matplotlib.cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)))
    photographs, rng = [*load_sample_images().images, portrait], np.random.default_rng(0)
    for index, (name, (which, top, left, side)) in enumerate(REGIONS.items()):
        for number in range(NUM_PHOTOS + NUM_NEW):
            scaled = int(side * rng.uniform(0.6, 1.0))
            y, x = (start + int(rng.integers(0, side - scaled + 1)) for start in (top, left))
            crop = photographs[which][y : y + scaled, x : x + scaled].astype(np.float32) * rng.uniform(0.6, 1.2)
            folder = folder_of(root, index, name, number)
            Image.fromarray(np.clip(crop, 0, 255).astype(np.uint8)).save(folder / f"{number}.jpg", quality=85)


def copy_tiny_imagenet(source: Path, root: Path) -> None:
    """Copy photos of eight classes, LOT/CLASS/* and new/CLASS/*."""
    words = dict(line.split("\t") for line in (source / "words.txt").read_text().splitlines())
    for index, wnid in enumerate((source / "wnids.txt").read_text().split()[: sum(LOTS)]):
        name = words[wnid].split(",")[0]
        for number, photo in enumerate(sorted((source / "train" / wnid / "images").iterdir())[: NUM_PHOTOS + NUM_NEW]):
            shutil.copy(photo, folder_of(root, index, name, number))


def folder_of(root: Path, index: int, name: str, number: int) -> Path:
    """The folder of a photo: that of the lot in which its class arrives, or of photos that are never shown."""
    lot = sum(index >= sum(LOTS[: k + 1]) for k in range(len(LOTS)))
    folder = root / (f"lot {lot + 1}" if number < NUM_PHOTOS else "new") / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def grow(path: Path, root: Path, options: LearnOptions) -> tuple[Learner, float]:
    """Learn lot after lot; return the model and the seconds."""
    start, learner = time.monotonic(), Learner(path)
    for lot in range(len(LOTS)):
        learner.learn(root / f"lot {lot + 1}", options)
    return learner, time.monotonic() - start


def accuracy(learner: Learner, photos: list[Path]) -> tuple[float, float]:
    """Percent of the photos that are named correctly, and percent that are called "none of these"."""
    names = learner.predict(photos)
    right = [name == photo.parent.name for name, photo in zip(names, photos, strict=True)]
    return 100 * float(np.mean(right)), 100 * float(np.mean(names == NONE_OF_THESE))


def main(data: Path, root: Path) -> None:
    """Run the example.

    Args:
        data: folder that may hold tiny-imagenet-200.
        root: folder to write to.
    """
    console, source = Console(), data / "tiny-imagenet-200"
    if source.is_dir():
        copy_tiny_imagenet(source, root)
    else:
        write_crops(root)
    photos = sorted(path for path in (root / "new").rglob("*") if path.is_file())
    what = "Tiny-ImageNet" if source.is_dir() else "crops of three photographs"
    console.print(f"{sum(LOTS)} classes of {what}, {NUM_PHOTOS} photos each, in updates of {LOTS} classes\n")

    table = Table("model", "seconds", "right", "none of these", title=f"{len(photos)} photos that were never shown")
    grown, seconds = grow(root / "photos.upcl", root, LearnOptions())
    spec = grown.require_bundle().spec
    right, none = accuracy(grown, photos)
    how = f"{spec.pretrained}, {spec.method}" if spec.features else f"{spec.backbone} from scratch, {spec.method}"
    table.add_row(how, f"{seconds:.0f}", f"{right:.0f} %", f"{none:.0f} %")
    trained, seconds = grow(root / "scratch.upcl", root, SCRATCH)
    right, none = accuracy(trained, photos)
    table.add_row(f"from scratch, upcl, {SCRATCH.epochs} epochs", f"{seconds:.0f}", f"{right:.0f} %", f"{none:.0f} %")
    console.print(table)
    if not source.is_dir():
        console.print("Crops differ in colour and texture, which a small network learns as well; real photos do not.\n")

    if spec.features:
        first, second, third, *_ = grown.classes
        photo = next(path for path in sorted(root.rglob("*")) if path.parent.name == third)
        start = time.monotonic()
        grown.correct(photo, first)
        grown.correct(photo, third)
        console.print(f"a photo of '{third}' moved to '{first}' and corrected in {time.monotonic() - start:.1f} s")
        start = time.monotonic()
        grown.rename(first, f"{first} (renamed)").forget(second)
        console.print(f"'{first}' renamed and '{second}' forgotten in {time.monotonic() - start:.1f} s")
        console.print(
            f"{accuracy(grown, [p for p in photos if p.parent.name not in (first, second)])[0]:.0f} % of the rest"
        )
    with quiet_export():
        export_onnx(grown, root / "photos.onnx")
    size = (root / "photos.onnx").stat().st_size / 1e6
    console.print(f"exported to photos.onnx: {size:.0f} MB, takes photos of any size")


def data_folder(words: list[str]) -> Path:
    """The folder that may hold tiny-imagenet-200: the first word, else $UPCL_DATA, else ../shared/data."""
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(words[0] if words else os.environ.get("UPCL_DATA") or shared)


if __name__ == "__main__":
    chosen = data_folder(sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="upcl-photos-") as folder:
        main(chosen, Path(folder))
