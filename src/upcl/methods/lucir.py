"""LUCIR (Hou et al., CVPR 2019): cosine head, preserved feature directions, a margin between old and new classes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.losses import cosine_distillation, margin_ranking
from upcl.core.memory import class_means
from upcl.core.options import Natural, NonNegative, option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Stage, Task
from upcl.nets import CosineHead, Network

from .base import Method

_RECIPE = Recipe(epochs=160, milestones=(80, 120))


@dataclass(kw_only=True, eq=False)
class LUCIR(Method[CosineHead]):
    """Learning a Unified Classifier Incrementally via Rebalancing.

    `L = CE(sigma cos, y) + lambda mean(1 - cos(f, f_old)) + L_rank` with `lambda = lambda_base sqrt(C_old / C_new)`,
    where L_rank keeps the cosine of an old image to its class `margin` above those to its nearest new classes.

    References:
        S. Hou, X. Pan, C. C. Loy, Z. Wang and D. Lin. Learning a Unified Classifier Incrementally via Rebalancing.
        CVPR 2019.

    Example:
        >>> LUCIR(lambda_base=10.0).rivals
        2
    """

    name = "lucir"
    title = "LUCIR"
    paper = "Learning a Unified Classifier Incrementally via Rebalancing (CVPR 2019)"
    summary = (
        "cosine head with imprinted new rows and fixed old ones, preserved feature directions, and old cosines ranked "
        "above new ones"
    )
    deviations = (
        "the run's memory budget instead of 20 per class; no class-balanced fine-tuning; no colour-swapped exemplars"
    )
    recipes = Recipes(first=_RECIPE, later=_RECIPE)

    lambda_base: NonNegative = option(
        5.0, "weight of the feature term, times sqrt(C_old / C_new)", "official code, CIFAR; ImageNet: 10"
    )
    margin: NonNegative = option(0.5, "margin of the ranking term, on unscaled cosines", "official code")
    rivals: Natural = option(
        2, "number of new classes that an old image is ranked against (at most all of them)", "official code"
    )
    ranking: Literal["mean", "sum"] = option(
        "mean", "average or sum the ranking term over the rivals", "code; sum in the paper"
    )
    ranking_weight: NonNegative = option(1.0, "weight of the ranking term", "official code")

    def make_net(self) -> Network[CosineHead]:
        return self.network_with(CosineHead, last_relu=False)

    def begin(self, task: Task) -> None:
        super().begin(task)
        if task.num_old:
            self.imprint()

    @torch.no_grad()
    def imprint(self) -> None:
        """Initialise each new row with the mean direction of its class and the mean norm of the old rows."""
        task, head = self.task, self.net.head
        means = class_means(
            self.extract(task.train), task.train.labels.to(head.new.device) - task.num_old, task.num_new
        )
        head.new.copy_(means * head.old.norm(dim=1).mean())

    def stage(self) -> Stage:
        """Return the main stage, which does not train the old rows."""
        return dataclasses.replace(
            super().stage(), params=[p for p in self.net.parameters() if p is not self.net.head.old]
        )

    def losses(self, batch: Batch) -> Losses:
        features, head = self.net.features(batch.inputs), self.net.head
        cosines = head.cosines(features)
        losses = {"ce": F.cross_entropy(head.sigma * cosines, batch.labels)}
        if self.teacher:
            old = F.normalize(self.teacher.features(batch.inputs))
            losses["forget"] = self.feature_weight * cosine_distillation(F.normalize(features), old)
            losses["rank"] = self.ranking_weight * self.ranking_loss(cosines, batch.labels)
        return losses

    @property
    def feature_weight(self) -> float:
        """lambda = lambda_base sqrt(C_old / C_new)."""
        return float(self.lambda_base * (self.task.num_old / self.task.num_new) ** 0.5)

    def ranking_loss(self, cosines: Tensor, labels: Tensor) -> Tensor:
        """Compute the margin ranking loss.

        Args:
            cosines: cosines between features and rows (B x C).
            labels: classes (B).
        """
        return margin_ranking(
            cosines, labels, self.task.num_old, rivals=self.rivals, margin=self.margin, reduction=self.ranking
        )
