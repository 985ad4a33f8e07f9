"""Methods in closed form: the backbone stays as it is, and the classifier follows from sums over its features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.closed_form import Linear, Statistics, class_ranks, row_space
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Stage, Task
from upcl.nets import Network
from upcl.nets.statistics_head import StatisticsHead

from .base import Method

NUM_FOLDS = 5  # of the cross-validation that chooses a regularisation
ENOUGH = 2000  # images: no further fold is needed once so many were classified


@dataclass(kw_only=True, eq=False)
class ClosedForm(Method[StatisticsHead], ABC):
    """Base class of methods that train nothing: `solve` computes the classifier from statistics of all images so far.

    Learning in any order and in any number of tasks gives the same classifier as learning everything at once, if the
    regularisation is the same: nothing is forgotten.

    Example:
        >>> from upcl.methods.ridge import Ridge
        >>> issubclass(Ridge, ClosedForm), Ridge.uses_memory
        (True, False)
    """

    recipes = Recipes(first=Recipe(epochs=1), later=Recipe(epochs=1))
    uses_memory = False
    uses_teacher = False

    @abstractmethod
    def solve(self, statistics: Statistics, strength: float) -> Linear:
        """Compute the classifier.

        Args:
            statistics: of the unit embeddings of all images.
            strength: the regularisation.
        """

    @property
    @abstractmethod
    def strengths(self) -> Sequence[float]:
        """Regularisations to choose from, the strongest first."""

    @classmethod
    def accepts_extra(cls) -> bool:
        return True

    def make_net(self) -> Network[StatisticsHead]:
        return self.network_with(StatisticsHead)

    def losses(self, batch: Batch) -> Losses:  # noqa: ARG002
        """There are none: no stage asks for them."""
        return {}

    def learn(self, task: Task) -> Iterator[Stage]:
        self.begin(task)
        with torch.no_grad():
            self.fit(self.net.projector(self.extract(self.data)), self.data.labels.to(self.setting.device))
        yield from ()  # no stage: nothing is trained

    def fit(self, embeddings: Tensor, labels: Tensor) -> float:
        """Add images to the statistics and compute the classifier.

        Args:
            embeddings: their embeddings (N x dim).
            labels: their classes (N).

        Returns:
            The share of these images that were classified correctly when they were left out (cross-validation), by the
            best regularisation; nan if it did not have to be chosen.
        """
        head = self.net.head
        head.statistics = head.statistics + head.measure(embeddings, labels)
        strength, accuracy = self.strengths[0], float("nan")
        if len(self.strengths) > 1:
            strength, accuracy = self.cross_validate(embeddings, labels)
        head.solution = self.solve(head.statistics, strength)
        return accuracy

    def cross_validate(self, embeddings: Tensor, labels: Tensor) -> tuple[float, float]:
        """Choose the regularisation by leaving out every fifth image of each class, in turn; some of them, if they are
        many.

        Args:
            embeddings: embeddings of images that are part of the statistics (N x dim).
            labels: their classes (N).

        Returns:
            The best regularisation (of equals, the strongest), and the share of correct predictions with it.
        """
        head, folds, everything = self.net.head, class_ranks(labels) % NUM_FOLDS, self.net.head.statistics
        features = F.normalize(embeddings)
        if int(everything.counts.sum()) == len(labels) < features.shape[1]:  # these images only: their span is enough
            features = row_space(features)
            everything = Statistics.of(features, labels, head.num_classes)
        correct, total = torch.zeros(len(self.strengths), dtype=torch.float64), 0
        for fold in range(NUM_FOLDS):
            chosen = (folds == fold).nonzero()[:, 0]
            chosen = chosen[:: max(1, len(chosen) // ENOUGH)]  # evenly spaced
            left_out, targets = features[chosen].double(), labels[chosen]
            statistics = everything - Statistics.of(left_out, targets, head.num_classes)
            for i, strength in enumerate(self.strengths):
                weight, bias = self.solve(statistics, strength)
                correct[i] += float(((left_out @ weight.T).add_(bias).argmax(1) == targets).sum())
            total += len(targets)
            if total >= ENOUGH:
                break
        best = int(correct.argmax())
        return self.strengths[best], float(correct[best]) / max(total, 1)
