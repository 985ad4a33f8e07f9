"""Peak memory and time of a step after the features were computed: a new model of many photos with 1,280 features.

python benchmarks/memory.py [PHOTOS] [CLASSES] [KNOWN PHOTOS]

The features are random clouds. With KNOWN PHOTOS, a model of as many photos in the first classes exists already, and
the step adds the others to it.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import torch

from upcl.model.feature_spec import feature_spec
from upcl.model.intake import NewImages
from upcl.model.learner import Learner
from upcl.model.options import LearnOptions

DIM = 1280
ROWS = 10_000


def clouds(start: int, stop: int, per_class: int) -> NewImages:
    """Features of photos, those of a class next to each other."""
    features = torch.empty(stop - start, DIM, dtype=torch.float16)
    for first in range(start, stop, ROWS):
        last = min(stop, first + ROWS)
        noise = torch.rand(last - first, DIM, generator=torch.Generator().manual_seed(first))
        for row, photo in zip(noise, range(first, last), strict=True):
            row[photo // per_class % DIM] += 2.0
        features[first - start : last - start] = noise
    names = [f"class {photo // per_class:05d}" for photo in range(start, stop)]
    digests = [f"{photo * 11400714819323198485 % 2**64:016x}" for photo in range(start, stop)]
    return NewImages(features, names, features[:0], [], (digests, []), undecided=True)


def peak() -> float:
    """Peak resident memory so far, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(num_photos: int = 60_000, num_classes: int = 600, num_known: int = 0) -> None:
    """Print the figures."""
    path, per_class = Path(tempfile.mkdtemp()) / "model.upcl", num_photos // num_classes
    spec = feature_spec(LearnOptions(backbone="efficientnet-lite0"), None, path)
    learner = Learner(path, device="cpu")
    learner.learn_features(clouds(0, num_known or 2 * per_class, per_class), spec)  # what every process needs
    if not num_known:
        path.unlink()
        learner = Learner(path, device="cpu")
    new = clouds(num_known, num_photos, per_class)
    before, start = peak(), time.perf_counter()
    learner.learn_features(new, learner.require_bundle().spec if num_known else spec)
    seconds = time.perf_counter() - start
    print(
        f"{num_photos - num_known:,} photos added to {num_known:,} ({num_classes:,} classes): {seconds:.0f} s; "
        f"peak memory grew by {(peak() - before) / num_photos / 1000:.1f} KB per photo beyond new features of "
        f"{2 * DIM / 1000:.1f} KB ({peak() / 1e9:.2f} GB in all); file {path.stat().st_size / 1e6:.0f} MB; "
        f"{learner.require_bundle().spec.method}"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
