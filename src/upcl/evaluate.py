"""Reads a model in both ways: its head, and the nearest mean of exemplars. The only code that meets test images."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from .core import Samples
from .memory import class_means, nearest_mean_scores
from .methods.base import Method

ReadingName = Literal["head", "nme"]
READINGS: tuple[ReadingName, ...] = ("head", "nme")
TOP = 5


@dataclass(frozen=True, eq=False)
class Reading:
    """Counts of predictions: `confusion[i, j]` images of class i taken for j; `top5[i]` of class i within the top 5."""

    confusion: Tensor
    top5: Tensor


class _Counter:
    def __init__(self, num_classes: int, device: torch.device) -> None:
        self.num_classes = num_classes
        self.confusion = torch.zeros(num_classes * num_classes, dtype=torch.int64, device=device)
        self.top5 = torch.zeros(num_classes, dtype=torch.int64, device=device)

    def add(self, scores: Tensor, labels: Tensor) -> None:
        cells = labels * self.num_classes + scores.argmax(1)
        self.confusion += torch.bincount(cells, minlength=len(self.confusion))
        top = scores.topk(min(TOP, self.num_classes), 1)
        hit = ((top.indices == labels[:, None]) & (top.values > -torch.inf)).any(1)
        self.top5 += torch.bincount(labels[hit], minlength=self.num_classes)

    def reading(self) -> Reading:
        return Reading(self.confusion.view(self.num_classes, -1).cpu(), self.top5.cpu())


@torch.no_grad()
def evaluate(method: Method[Any], samples: Samples, num_seen: int) -> dict[ReadingName, Reading | None]:
    """Both readings over these images. Without exemplars there is no mean to be near: None."""
    device = method.setting.device
    exemplars = method.memory.samples
    head, nme = _Counter(num_seen, device), _Counter(num_seen, device)
    means = class_means(method.extract(exemplars), exemplars.labels.to(device), num_seen) if len(exemplars) else None
    method.net.eval()
    for inputs, labels in method.setting.batches(samples):
        features = method.net.features(inputs)
        head.add(method.scores(features), labels)
        if means is not None:
            nme.add(nearest_mean_scores(features, means), labels)
    return {"head": head.reading(), "nme": nme.reading() if means is not None else None}


SHOWN_CLASSES, SHOWN_IMAGES = 20, 50  # of the feature map: the newest classes, half of them old if there are so many
SHOWN_EXEMPLARS, SHOWN_PAIRS, SHOWN_ERRORS = 5, 6, 5
THUMBNAIL = 64  # pixels

Sketch = dict[str, Tensor]


@torch.no_grad()
def sketch(method: Method[Any], samples: Samples, num_old: int, num_seen: int, confusion: Tensor) -> Sketch:
    """What pictures of a finished model need.

    `features` of test images of the newest classes with their `labels`; the head's `vectors` of all classes;
    thumbnails of `exemplars` (with `exemplar_labels`) and of test images of the classes confused most often (`errors`,
    with `error_labels` and what they were `error_taken` for).
    """
    new = min(num_seen - num_old, max(SHOWN_CLASSES // 2, SHOWN_CLASSES - num_old))
    first_old = max(0, num_old - (SHOWN_CLASSES - new))
    shown = [*range(first_old, num_old), *range(num_seen - new, num_seen)]
    some = _first_of_each(samples, shown, SHOWN_IMAGES)
    kept = _first_of_each(method.memory.samples, range(num_seen), SHOWN_EXEMPLARS)
    wrong, taken = _errors(method, samples, confusion)
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


def _first_of_each(samples: Samples, classes: Iterable[int], num: int) -> Samples:
    rows = [(samples.labels == label).nonzero()[:num, 0] for label in classes]
    return samples[torch.cat([torch.empty(0, dtype=torch.int64), *rows])]


def _errors(method: Method[Any], samples: Samples, confusion: Tensor) -> tuple[Samples, Tensor]:
    """Some images of the pairs (class, taken for) that are confused most often, the worst pair first."""
    counts = confusion.clone().fill_diagonal_(0).flatten()
    worst = counts.sort(descending=True, stable=True).indices[:SHOWN_PAIRS]
    pairs = [divmod(int(cell), len(confusion)) for cell in worst if counts[cell] > 0]
    among = samples[torch.isin(samples.labels, torch.tensor([label for label, _ in pairs], dtype=torch.int64))]
    if not len(among):
        return among, among.labels
    taken = method.scores(method.extract(among)).argmax(1).cpu()
    rows = [((among.labels == label) & (taken == other)).nonzero()[:SHOWN_ERRORS, 0] for label, other in pairs]
    return among[torch.cat(rows)], taken[torch.cat(rows)]


def _thumbnails(method: Method[Any], samples: Samples) -> Tensor:
    """uint8 images no larger than a thumbnail."""
    channels, height, width = method.setting.image_shape
    parts = [method.setting.transform.untest(inputs) for inputs, _ in method.setting.batches(samples)]
    images = torch.cat(parts).cpu() if parts else torch.empty(0, channels, height, width, dtype=torch.uint8)
    if max(height, width) <= THUMBNAIL or not len(images):
        return images
    share = THUMBNAIL / max(height, width)
    size = (max(1, round(height * share)), max(1, round(width * share)))
    return F.interpolate(images.float(), size, mode="area").round().to(torch.uint8)


@torch.no_grad()
def head_accuracy(method: Method[Any], samples: Samples) -> float:
    """Share of images that the head gets right, for choosing an epoch."""
    scores = method.scores(method.extract(samples))
    return float((scores.argmax(1).cpu() == samples.labels).float().mean())
