"""Coil (Zhou et al., MM 2021): optimal transport carries classifier rows between old and new classes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.losses import distillation
from upcl.core.matching import sinkhorn
from upcl.core.memory import class_means
from upcl.core.options import Count, NonNegative, Positive, option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Samples, Task
from upcl.nets import CosineHead, Network

from .distillation import DistillationMethod

_RECIPE = Recipe(epochs=160, milestones=(80, 120))


def transport(source: Tensor, target: Tensor, rows: Tensor, regularisation: float) -> Tensor:
    """Rows for the target classes: mixtures of the source classes' unit rows by the plan between their means."""
    plan = sinkhorn(torch.cdist(source, target, p=3), regularisation)
    carried = len(source) * plan.T @ F.normalize(rows)
    calibrated: Tensor = carried * (rows.norm(dim=1).mean() / carried.norm(dim=1).mean())
    return calibrated


@dataclass(kw_only=True, eq=False)
class Coil(DistillationMethod[CosineHead]):
    name = "coil"
    title = "Coil"
    paper = "Co-Transport for Class-Incremental Learning (ACM MM 2021)"
    summary = "new rows start as transported old rows, and rows transported back teach the old classes"
    deviations = (
        "old class means come from exemplars (the code reads all old data); marginals that sum to one; transported "
        "targets carry no gradient; rows are carried back once an epoch unless asked more often"
    )
    recipes = Recipes(first=_RECIPE, later=_RECIPE)
    needs_exemplars = True

    regularisation: Positive = option(0.464, "entropy of the transport plans", "official code")
    ahead_weight: NonNegative = option(
        1e-3, "weight of the transported rows' advice in the first epoch", "official code"
    )
    back_weight: NonNegative = option(1e-3, "weight, times the squared progress, of rows carried back", "official code")
    refresh: Count = option(0, "steps after which rows are carried back anew; 0: each epoch", "code: 30, very slow")

    def make_net(self) -> Network[CosineHead]:
        return self.build(CosineHead, last_relu=False)

    def weights(self) -> tuple[float, float]:
        return 1 - self.old_share, self.old_share

    def begin(self, task: Task) -> None:
        super().begin(task)
        if task.num_old:
            self.transport_forward()

    @torch.no_grad()
    def transport_forward(self) -> None:
        """Old rows to new classes; the new rows start there."""
        old, new = self.means()
        self.ahead = transport(old, new, self.net.head.old, self.regularisation)
        self.net.head.new.copy_(self.ahead)

    @torch.no_grad()
    def transport_back(self) -> None:
        """New rows to old classes, by the means of this moment."""
        old, new = self.means()
        self.net.train()
        self.back = transport(new, old, self.net.head.new, self.regularisation)

    def means(self) -> tuple[Tensor, Tensor]:
        """Unit class means: of old classes by their exemplars, of new ones by all their images."""
        task, head = self.task, self.net.head
        old = self._means(self.memory.samples, 0, task.num_old)
        old = torch.where(
            old.norm(dim=1, keepdim=True) > 0, old, F.normalize(head.old)
        )  # no exemplar: the row stands in
        return old, self._means(task.train, task.num_old, task.num_new)

    def _means(self, samples: Samples, first: int, num: int) -> Tensor:
        if not len(samples):
            return torch.zeros(num, self.net.head.dim, device=self.setting.device)
        return class_means(self.extract(samples), samples.labels.to(self.setting.device) - first, num)

    def losses(self, batch: Batch) -> Losses:
        due = batch.step == 0 or (self.refresh > 0 and batch.step % self.refresh == 0)
        if self.teacher and batch.epoch > 0 and due:
            self.transport_back()
        features, num_old = self.net.features(batch.inputs), self.task.num_old
        scores, old = self.net.classify(features), self.old_scores(batch)
        losses = self.terms(scores, old, batch)
        if old is not None and batch.epoch == 0:
            advice = self._cosines(features.detach(), self.ahead)
            losses["ahead"] = self.ahead_weight * distillation(scores[:, num_old:], advice, self.temperature)
        elif old is not None:
            weight = self.back_weight * batch.progress**2
            losses["back"] = weight * distillation(self._cosines(features, self.back), old, self.temperature)
        return losses

    def _cosines(self, features: Tensor, rows: Tensor) -> Tensor:
        return F.normalize(features) @ F.normalize(rows).T
