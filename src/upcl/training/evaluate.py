"""Evaluation of a model by three readings: its head, the nearest mean of exemplars, and both together.

This is the only code that reads test images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from upcl.core.memory import class_means, fused_scores, nearest_mean_scores
from upcl.core.types import Samples
from upcl.methods.base import Method

ReadingName = Literal["head", "nme", "both"]
READINGS: tuple[ReadingName, ...] = ("head", "nme", "both")
TOP = 5


@dataclass(frozen=True, eq=False)
class Reading:
    """Prediction counts of one reading. They are sparse: test images are fewer than pairs of many classes.

    Args:
        confusion: entry (i, j) counts the images of class i that were predicted as class j (C x C, sparse).
        top5: entry i counts the images of class i whose class is among the five highest scores (C).

    Example:
        >>> reading = Reading(confusion=torch.tensor([[3, 1], [0, 4]]).to_sparse(), top5=torch.tensor([4, 4]))
        >>> reading.hits.tolist(), reading.totals.tolist()
        ([3, 4], [4, 4])
    """

    confusion: Tensor
    top5: Tensor

    @property
    def hits(self) -> Tensor:
        """Correct predictions of each class."""
        labels, predicted = self.confusion.indices()
        return self._sum_by_class(labels[labels == predicted], self.confusion.values()[labels == predicted])

    @property
    def totals(self) -> Tensor:
        """Images of each class."""
        return self._sum_by_class(self.confusion.indices()[0], self.confusion.values())

    def _sum_by_class(self, labels: Tensor, counts: Tensor) -> Tensor:
        return torch.zeros_like(self.top5).index_add_(0, labels, counts)


class PredictionCounter:
    """Counts predictions batch by batch on the device, without waiting for it.

    Args:
        num_classes: number of classes.
        device: where the scores are.

    Example:
        >>> counter = PredictionCounter(2, torch.device("cpu"))
        >>> counter.add(torch.tensor([[0.9, 0.1], [0.8, 0.2]]), torch.tensor([0, 1]))
        >>> counter.reading().confusion.to_dense().tolist()
        [[1, 0], [1, 0]]
    """

    def __init__(self, num_classes: int, device: torch.device) -> None:
        self.num_classes = num_classes
        self.pairs = [torch.empty(2, 0, dtype=torch.int64, device=device)]
        self.top5 = torch.zeros(num_classes, dtype=torch.int64, device=device)

    def add(self, scores: Tensor, labels: Tensor) -> None:
        """Count a batch.

        Args:
            scores: B x C; -inf for classes that cannot be predicted.
            labels: the true classes (B).
        """
        self.pairs.append(torch.stack([labels, scores.argmax(1)]))
        top = scores.topk(min(TOP, self.num_classes), 1)
        hit = ((top.indices == labels[:, None]) & (top.values > -torch.inf)).any(1)
        self.top5 += torch.bincount(labels[hit], minlength=self.num_classes)

    def reading(self) -> Reading:
        """The counts so far, on the CPU."""
        pairs = torch.cat(self.pairs, 1).cpu()
        ones = torch.ones(pairs.shape[1], dtype=torch.int64)
        confusion = torch.sparse_coo_tensor(pairs, ones, (self.num_classes, self.num_classes), check_invariants=True)
        return Reading(confusion.coalesce(), self.top5.cpu())


@torch.no_grad()
def evaluate(method: Method[Any], samples: Samples, num_seen: int) -> dict[ReadingName, Reading | None]:
    """Count the predictions of all readings over these images.

    Args:
        method: a method between two tasks.
        samples: images of the classes seen.
        num_seen: number of classes seen.

    Returns:
        The counts by reading; None for those that need exemplars if the method has none.

    Example:
        >>> from upcl.checks import MethodHarness, few_digits
        >>> from upcl.methods import METHODS
        >>> harness = MethodHarness(METHODS["icarl"], few_digits(2))
        >>> harness.learn(harness.tasks[0])
        >>> readings = evaluate(harness.method, harness.protocol.test(2), num_seen=2)
        >>> readings["head"].totals.tolist()
        [2, 2]
    """
    device = method.setting.device
    exemplars = method.memory.samples
    head, nme, both = (PredictionCounter(num_seen, device) for _ in READINGS)
    means = class_means(method.extract(exemplars), exemplars.labels.to(device), num_seen) if len(exemplars) else None
    method.net.eval()
    for inputs, labels in method.setting.batches(samples):
        features = method.net.features(inputs)
        scores = method.scores(features)
        head.add(scores, labels)
        if means is not None:
            nearest = nearest_mean_scores(features, means)
            nme.add(nearest, labels)
            both.add(fused_scores(scores, nearest), labels)
    has_means = means is not None
    return {
        "head": head.reading(),
        "nme": nme.reading() if has_means else None,
        "both": both.reading() if has_means else None,
    }


@torch.no_grad()
def head_accuracy(method: Method[Any], samples: Samples) -> float:
    """The share of images that the head predicts correctly, for the selection of an epoch.

    Args:
        method: a method during training.
        samples: images of the classes seen.

    Returns:
        A share between 0 and 1.

    Example:
        >>> from upcl.checks import MethodHarness, few_digits
        >>> from upcl.methods import METHODS
        >>> harness = MethodHarness(METHODS["icarl"], few_digits(2))
        >>> harness.learn(harness.tasks[0])
        >>> 0 <= head_accuracy(harness.method, harness.protocol.test(2)) <= 1
        True
    """
    scores = method.scores(method.extract(samples))
    return float((scores.argmax(1).cpu() == samples.labels).float().mean())
