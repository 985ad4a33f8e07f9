"""FOSTER (Wang et al., ECCV 2022): a second backbone learns what the first lacks; then both are compressed into one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.losses import distillation, effective_weights
from upcl.core.options import Fraction, NonNegative, Positive, option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Stage, Task
from upcl.nets import frozen_copy
from upcl.nets.expandable import CompressibleNetwork

from .expanding import ExpandingMethod

_RECIPE = Recipe(epochs=170, schedule="cosine")


@dataclass(kw_only=True, eq=False)
class FOSTER(ExpandingMethod):
    """Feature boosting and compression.

    Boosting: `L = CE(z / w, y) + lambda_a CE(a, y) + strength KD_T(z_old, q)`, where z are scores from the features of
    the frozen backbone and a new one, a scores from the new one alone, q those of the last task's network, and w_k the
    inverse effective number of images of class k, at a mean of 1. Compression: the old backbone learns the scores of
    both by KD_T, with the probabilities of class k multiplied by another w_k; the new one is dropped.

    References:
        F.-Y. Wang, D.-W. Zhou, H.-J. Ye and D.-C. Zhan. FOSTER: Feature Boosting and Compression for Class-Incremental
        Learning. ECCV 2022.

    Example:
        >>> FOSTER(balance_beta=0.0).temperature
        2.0
    """

    name = "foster"
    title = "FOSTER"
    paper = "FOSTER: Feature Boosting and Compression for Class-Incremental Learning (ECCV 2022)"
    summary = "lets a second backbone learn what the first lacks, and distils both into one after every task"
    deviations = (
        "one beta for all tasks; images are counted instead of assumed (500 per class on CIFAR-100); exemplars are "
        "selected by the compressed network; no AutoAugment and Cutout; no weight alignment (off in the official code)"
    )
    recipes = Recipes(first=dataclasses.replace(_RECIPE, epochs=200), later=_RECIPE)
    uses_teacher = True
    net: CompressibleNetwork = field(init=False, repr=False)

    align_beta: Fraction = option(
        0.96, "beta_1 of the effective number that scores are divided by", "PyCIL; official code: 0.94 to 0.98"
    )
    balance_beta: Fraction = option(0.97, "beta_2 of the effective number in the compression", "official code")
    strength: NonNegative = option(1.0, "weight of the distillation while boosting", "official code")
    temperature: Positive = option(2.0, "temperature T of both distillations", "official code")
    compression_share: Positive = option(
        130 / 170, "epochs of the compression, as a share of the task's", "official code: 130 of 170"
    )

    aligning: Tensor = field(init=False, repr=False)
    balancing: Tensor = field(init=False, repr=False)

    def make_net(self) -> CompressibleNetwork:
        return CompressibleNetwork(self.make_branches())

    @property
    def online_obstacle(self) -> str:
        """The compression sees all images a second time."""
        return "both backbones are compressed into one by a second pass over the images of the task"

    def learn(self, task: Task) -> Iterator[Stage]:
        self.begin(task)
        yield self.stage()
        if self.teacher:
            self.compress()
            yield self.compression_stage()
        self.remember()

    def begin(self, task: Task) -> None:
        """Begin the task, and compute the weights of the classes from their numbers of images.

        Args:
            task: the task to learn.
        """
        super().begin(task)
        self.aligning = effective_weights(self.counts, self.align_beta)
        self.balancing = effective_weights(self.counts, self.balance_beta)

    def losses(self, batch: Batch) -> Losses:
        features = self.net.features(batch.inputs)
        scores = self.net.classify(features)
        if not self.teacher:
            return {"ce": F.cross_entropy(scores, batch.labels)}
        with torch.no_grad():  # the teacher's backbone is the frozen one
            old = self.teacher.classify(features[:, : self.net.backbone.branch_dim])
        return {
            "ce": F.cross_entropy(scores / self.aligning, batch.labels),
            "auxiliary": self.auxiliary * F.cross_entropy(self.net.auxiliary_scores(features), batch.labels),
            "kd": self.strength * distillation(scores[:, : self.task.num_old], old, self.temperature),
        }

    @torch.no_grad()
    def compress(self) -> None:
        """Return to the last task's network, with random rows for new classes; both backbones become the teacher."""
        assert self.teacher
        before, self.teacher = self.teacher.head, frozen_copy(self.net)
        self.net.compress()
        self.net.head.weight[: self.task.num_old] = before.weight
        self.net.head.bias[: self.task.num_old] = before.bias

    def compression_stage(self) -> Stage:
        """Return the second stage: the remaining backbone and its head learn from both backbones."""
        recipe = self.recipe.scaled(max(1, round(self.compression_share * self.recipe.epochs)))
        recipe = dataclasses.replace(recipe, weight_decay=0.0)
        return Stage("compress", self.data, self.compression_losses, list(self.net.parameters()), recipe)

    def compression_losses(self, batch: Batch) -> Losses:
        """Compute the loss of the second stage.

        Args:
            batch: the batch.
        """
        assert self.teacher
        boosted = self.teacher(batch.inputs)
        return {"kd": distillation(self.net(batch.inputs), boosted, self.temperature, self.balancing)}
