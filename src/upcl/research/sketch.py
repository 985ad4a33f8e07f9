"""Data for figures of a finished model: features, class vectors, thumbnails of exemplars and of errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.files import atomic_path
from upcl.core.types import Samples
from upcl.methods.base import Method

SHOWN_CLASSES, SHOWN_IMAGES = 20, 50  # of the feature map: the newest classes, half of them old if there are so many
SHOWN_EXEMPLARS, SHOWN_PAIRS, SHOWN_ERRORS = 5, 6, 5
EXEMPLAR_CLASSES = 1000  # the first classes, of which a gallery shows some
THUMBNAIL = 64  # pixels
Sketch = dict[str, Tensor]
FILE_NAME = "sketch.npz"


@torch.no_grad()
def sketch(method: Method[Any], samples: Samples, num_old: int, num_seen: int, confusion: Tensor) -> Sketch:
    """Collect what figures of a finished model need.

    Args:
        method: the method after its last task.
        samples: test images of all classes.
        num_old: number of classes before the last task.
        num_seen: number of classes.
        confusion: prediction counts of the head (sparse).

    Returns:
        `features` of test images of the newest classes with their `labels`; the head's `vectors` of all classes;
        thumbnails of `exemplars` (with `exemplar_labels`) and of test images of the most confused pairs of classes
        (`errors`, with their `error_labels` and predictions `error_taken`).

    Example:
        >>> from upcl.checks import MethodHarness, few_digits
        >>> from upcl.methods import METHODS
        >>> harness = MethodHarness(METHODS["icarl"], few_digits(2))
        >>> harness.learn(harness.tasks[0])
        >>> content = sketch(harness.method, harness.protocol.test(2), 0, 2, torch.tensor([[1, 1], [0, 2]]).to_sparse())
        >>> content["features"].shape, content["exemplars"].shape
        (torch.Size([4, 128]), torch.Size([4, 1, 8, 8]))
    """
    new = min(num_seen - num_old, max(SHOWN_CLASSES // 2, SHOWN_CLASSES - num_old))
    first_old = max(0, num_old - (SHOWN_CLASSES - new))
    shown = [*range(first_old, num_old), *range(num_seen - new, num_seen)]
    some = _first_of_each(samples, shown, SHOWN_IMAGES)
    kept = _first_of_each(method.memory.samples, range(min(num_seen, EXEMPLAR_CLASSES)), SHOWN_EXEMPLARS)
    wrong, taken = _errors(method, samples, confusion)
    if samples.inputs.is_floating_point():  # features have no pictures
        kept, wrong, taken = kept[:0], wrong[:0], taken[:0]
    return {
        "features": method.net.projector(method.extract(some)).cpu(),
        "labels": some.labels,
        "vectors": method.net.head.vectors.detach().cpu(),
        "exemplars": _thumbnails(method, kept),
        "exemplar_labels": kept.labels,
        "errors": _thumbnails(method, wrong),
        "error_labels": wrong.labels,
        "error_taken": taken,
    }


def _first_of_each(samples: Samples, classes: Sequence[int], num: int) -> Samples:
    by_class = samples.rows_by_class(max(classes, default=-1) + 1)
    rows = [by_class[label][:num] for label in classes]
    return samples[torch.cat([torch.empty(0, dtype=torch.int64), *rows])]


def _errors(method: Method[Any], samples: Samples, confusion: Tensor) -> tuple[Samples, Tensor]:
    """Some images of the pairs (class, taken for) that are confused most often, the worst pair first."""
    cells, counts = confusion.indices(), confusion.values()
    wrong = cells[0] != cells[1]
    worst = counts[wrong].sort(descending=True, stable=True).indices[:SHOWN_PAIRS]
    pairs = cells[:, wrong][:, worst].T.tolist()
    among = samples[torch.isin(samples.labels, torch.tensor([label for label, _ in pairs], dtype=torch.int64))]
    if not len(among):
        return among, among.labels
    taken = method.scores(method.extract(among)).argmax(1).cpu()
    rows = [((among.labels == label) & (taken == other)).nonzero()[:SHOWN_ERRORS, 0] for label, other in pairs]
    return among[torch.cat(rows)], taken[torch.cat(rows)]


def _thumbnails(method: Method[Any], samples: Samples) -> Tensor:
    """uint8 images no larger than a thumbnail."""
    if not len(samples):
        return torch.empty(0, 1, 1, 1, dtype=torch.uint8)
    height, width = method.setting.image_shape[1:]
    parts = [method.setting.transform.denormalise(inputs) for inputs, _ in method.setting.batches(samples)]
    images = torch.cat(parts).cpu()
    if max(height, width) <= THUMBNAIL:
        return images
    share = THUMBNAIL / max(height, width)
    size = (max(1, round(height * share)), max(1, round(width * share)))
    return F.interpolate(images.float(), size, mode="area").round().to(torch.uint8)


def write_sketch(folder: Path, content: Sketch) -> None:
    """Write `sketch.npz` atomically.

    Args:
        folder: the run's folder.
        content: what `sketch` returned.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> write_sketch(folder, {"labels": torch.tensor([0, 1])})
        >>> np.load(folder / "sketch.npz")["labels"].tolist()
        [0, 1]
    """
    with atomic_path(folder / FILE_NAME, suffix=".npz") as partial:
        np.savez_compressed(partial, allow_pickle=False, **{name: value.numpy() for name, value in content.items()})
