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
from upcl.nets import Network, make_backbone
from upcl.nets.extractors import FeatureExtractor
from upcl.nets.statistics_head import StatisticsHead

from .base import Method

NUM_FOLDS = 5  # of the cross-validation that chooses a regularisation
ENOUGH = 500  # images: no further fold is needed once so many were classified


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
        return self.network_on(make_backbone(self.setting.backbone, self.setting.channels))

    def network_on(self, backbone: FeatureExtractor) -> Network[StatisticsHead]:
        """Create the network around a backbone.

        Args:
            backbone: the feature extractor.
        """
        return Network(backbone, StatisticsHead(backbone.dim))

    def start_beside(self, other: ClosedForm) -> None:
        """Enter the setting of another method, on the same backbone: neither of them trains it.

        Args:
            other: a method that was started.
        """
        self.setting, self.memory = other.setting, other.memory
        self.net = self.network_on(other.net.backbone).eval().to(self.setting.device)
        self.net.set_execution(self.setting.execution)

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

    def solve_few(self, embeddings: Tensor, labels: Tensor, strength: float) -> Linear:
        """Compute the same classifier as `solve`, from all images themselves, in the space that they span: faster if
        they are fewer than its dimensions.

        Args:
            embeddings: embeddings of all images (N x dim).
            labels: their classes (N).
            strength: the regularisation.
        """
        exact = F.normalize(embeddings.float()).double()
        axes = torch.linalg.qr(exact.T).Q
        weight, bias = self.solve(Statistics.of(exact @ axes, labels, self.net.head.num_classes), strength)
        return weight @ axes.T, bias

    def cross_validate(self, embeddings: Tensor, labels: Tensor, *, few: bool = False) -> tuple[float, float]:
        """Choose the regularisation by leaving out every fifth image of each class, in turn; some of them, if they are
        many.

        Args:
            embeddings: embeddings of images that are part of the statistics (N x dim).
            labels: their classes (N).
            few: there are no other images, and fewer of them than dimensions: the span of the embeddings is enough, and
                the statistics are not read.

        Returns:
            The best regularisation (of equals, the strongest), and the share of correct predictions with it.
        """
        head, folds, everything = self.net.head, class_ranks(labels) % NUM_FOLDS, self.net.head.statistics
        coordinates = None
        if few or int(everything.counts.sum()) == len(labels) < embeddings.shape[1]:
            coordinates = row_space(F.normalize(embeddings.float()))
            everything = Statistics.of(coordinates, labels, head.num_classes)
        correct, total = torch.zeros(len(self.strengths), dtype=torch.float64), 0
        for fold in range(NUM_FOLDS):
            chosen = (folds == fold).nonzero()[:, 0]
            if len(chosen) >= 2 * ENOUGH:  # some of them, whatever the order in which classes were learned
                order = embeddings[chosen].sum(1, dtype=torch.float64).argsort(stable=True)
                chosen = chosen[order][:: len(chosen) // ENOUGH]
            left_out, targets = F.normalize(embeddings[chosen].float()).double(), labels[chosen]
            left_out = left_out if coordinates is None else coordinates[chosen]
            statistics = everything - Statistics.of(left_out, targets, head.num_classes)
            for i, strength in enumerate(self.strengths):
                weight, bias = self.solve(statistics, strength)
                correct[i] += float(((left_out @ weight.T).add_(bias).argmax(1) == targets).sum())
            total += len(targets)
            if total >= ENOUGH:
                break
        best = int(correct.argmax())
        return self.strengths[best], float(correct[best]) / max(total, 1)
