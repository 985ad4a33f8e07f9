"""LUCIR (Hou et al., CVPR 2019): cosine head, features held by their direction, a margin between old and new."""

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
    name = "lucir"
    title = "LUCIR"
    paper = "Learning a Unified Classifier Incrementally via Rebalancing (CVPR 2019)"
    summary = (
        "a cosine head with imprinted new rows and fixed old ones, feature directions held, old cosines kept above new"
    )
    deviations = (
        "the run's memory rule instead of 20 a class; no class-balanced fine-tuning; exemplars are not colour-swapped"
    )
    recipes = Recipes(first=_RECIPE, later=_RECIPE)

    lambda_base: NonNegative = option(
        5.0, "weight of the feature term is this times sqrt(C_old / C_new)", "CIFAR; ImageNet: 10"
    )
    margin: NonNegative = option(0.5, "of the ranking term, on plain cosines", "official code")
    rivals: Natural = option(
        2, "new classes that an old image is ranked against (at most all of them)", "official code"
    )
    ranking: Literal["mean", "sum"] = option(
        "mean", "the ranking term averages or sums over rivals", "code; sum in the paper"
    )
    ranking_weight: NonNegative = option(1.0, "weight of the ranking term", "official code")

    def make_net(self) -> Network[CosineHead]:
        return self.build(CosineHead, last_relu=False)

    def begin(self, task: Task) -> None:
        super().begin(task)
        if task.num_old:
            self.imprint()

    @torch.no_grad()
    def imprint(self) -> None:
        """Start each new row at its class's mean direction, as long as the old rows are on average."""
        task, head = self.task, self.net.head
        means = class_means(
            self.extract(task.train), task.train.labels.to(head.new.device) - task.num_old, task.num_new
        )
        head.new.copy_(means * head.old.norm(dim=1).mean())

    def stage(self) -> Stage:
        """Old rows stay as they are."""
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
        return margin_ranking(
            cosines, labels, self.task.num_old, rivals=self.rivals, margin=self.margin, reduction=self.ranking
        )
