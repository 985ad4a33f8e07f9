"""Reads a model in both ways: its head, and the nearest mean of exemplars. The only code that meets test images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from upcl.core.memory import class_means, nearest_mean_scores
from upcl.core.types import Samples
from upcl.methods.base import Method

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


@torch.no_grad()
def head_accuracy(method: Method[Any], samples: Samples) -> float:
    """Share of images that the head gets right, for choosing an epoch."""
    scores = method.scores(method.extract(samples))
    return float((scores.argmax(1).cpu() == samples.labels).float().mean())
