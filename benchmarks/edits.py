"""How long edits of a model take: rename, merge, correct and forget, on 2,000 photos of 50 classes with 1,280 features.

python benchmarks/edits.py [PHOTOS] [CLASSES]

The features are random clouds, so no photo is needed. Opening the file and writing it are part of each time; importing
the package is not.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from upcl.model.feature_spec import feature_spec
from upcl.model.intake import NewImages
from upcl.model.learner import Learner
from upcl.model.options import LearnOptions

DIM = 1280


def make_model(path: Path, num_photos: int, num_classes: int, method: str | None) -> list[Path]:
    """A model of random features, and a file for each photo, by which it is recognised."""
    generator, per_class = torch.Generator().manual_seed(0), num_photos // num_classes
    centres = torch.rand(num_classes, DIM, generator=generator)
    labels = torch.arange(num_classes).repeat_interleave(per_class)
    features = (centres[labels] + torch.rand(len(labels), DIM, generator=generator)).half()
    files = [path.parent / f"{k}.jpg" for k in range(len(labels))]
    for file in files:
        file.write_text(file.name)
    digests = [hashlib.sha256(file.name.encode()).hexdigest()[:16] for file in files]
    names = [f"class {label}" for label in labels.tolist()]
    images = NewImages(features, names, features[:0], [], (digests, []), undecided=True)
    spec = feature_spec(LearnOptions(backbone="efficientnet-lite0", method=method), None, path)
    Learner(path, device="cpu").learn_features(images, spec)
    return files


def main(num_photos: int = 2000, num_classes: int = 50) -> None:
    """Print a table of seconds."""
    edits: dict[str, Callable[[Learner, list[Path]], object]] = {
        "rename": lambda learner, _: learner.rename("class 0", "robin"),
        "merge": lambda learner, _: learner.merge("class 0", "class 1"),
        "correct": lambda learner, photos: learner.correct(photos[0], "class 1"),
        "forget --photo": lambda learner, photos: learner.forget_photo(photos[0]),
        "forget --class": lambda learner, _: learner.forget("class 0"),
    }
    print(f"{'method':12}" + "".join(f"{name:>16}" for name in edits))
    for method in (None, "ncm", "slda", "ridge", "ranpac"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.upcl"
            photos, seconds = make_model(path, num_photos, num_classes, method), []
            Learner(path, device="cpu").rename("class 0", "class zero").rename("class zero", "class 0")  # warm up
            for edit in edits.values():
                copy = Path(shutil.copy(path, Path(folder) / "copy.upcl"))
                start = time.perf_counter()
                edit(Learner(copy, device="cpu"), photos)
                seconds.append(time.perf_counter() - start)
            print(f"{method or 'automatic':12}" + "".join(f"{value:14.2f} s" for value in seconds), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
