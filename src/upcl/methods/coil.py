"""Coil (Zhou et al., ACM MM 2021): optimal transport of classifier rows between old and new classes."""

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

from .distillation import ShareWeightedMethod

_RECIPE = Recipe(epochs=160, milestones=(80, 120))


def transport(source: Tensor, target: Tensor, rows: Tensor, regularisation: float) -> Tensor:
    """Transport classifier rows from source classes to target classes.

    Each target row is a mixture of the normalised source rows by the transport plan between the class means, scaled to
    the mean norm of the source rows.

    Args:
        source: means of the source classes (n x d).
        target: means of the target classes (m x d).
        rows: rows of the source classes (n x d).
        regularisation: weight of the plan's entropy.

    Returns:
        Rows of the target classes (m x d).

    Example:
        >>> means = torch.eye(2)
        >>> rows = transport(means, means.flip(0), torch.tensor([[3.0, 0.0], [0.0, 3.0]]), 0.01)
        >>> torch.allclose(rows, torch.tensor([[0.0, 3.0], [3.0, 0.0]]), atol=1e-4)
        True
    """
    plan = sinkhorn(torch.cdist(source, target, p=3), regularisation)
    transported = len(source) * plan.T @ F.normalize(rows)
    calibrated: Tensor = transported * (rows.norm(dim=1).mean() / transported.norm(dim=1).mean())
    return calibrated


@dataclass(kw_only=True, eq=False)
class Coil(ShareWeightedMethod[CosineHead]):
    """Co-Transport for class-Incremental Learning.

    `L = (1 - l) CE(z, y) + l KD_2(z_old, q) + L_co` with `l = C_old / C`. In the first epoch, L_co is `ahead_weight`
    times the distillation of the transported rows' scores into the new logits (prospective transport). Later it is
    `back_weight (e / E)^2` times the distillation of the teacher into the scores of rows transported back
    (retrospective transport).

    References:
        D.-W. Zhou, H.-J. Ye and D.-C. Zhan. Co-Transport for Class-Incremental Learning. ACM Multimedia 2021.

    Example:
        >>> Coil(refresh=30).regularisation
        0.464
    """

    name = "coil"
    title = "Coil"
    paper = "Co-Transport for Class-Incremental Learning (ACM MM 2021)"
    summary = "initialises new rows with transported old rows, and distils into new rows transported back"
    deviations = (
        "old class means come from exemplars (the code reads all old data); marginals sum to one; no gradient through "
        "transported targets; rows are transported back once per epoch by default"
    )
    recipes = Recipes(first=_RECIPE, later=_RECIPE)
    needs_exemplars = True

    regularisation: Positive = option(0.464, "weight of the entropy of the transport plans", "official code")
    ahead_weight: NonNegative = option(1e-3, "weight of the prospective transport, in the first epoch", "official code")
    back_weight: NonNegative = option(
        1e-3, "weight of the retrospective transport, times the squared progress", "official code"
    )
    refresh: Count = option(
        0, "steps between two retrospective transports; 0: once per epoch", "code: 30, which is very slow"
    )

    @property
    def online_obstacle(self) -> str:
        """The retrospective transport takes no part in the first epoch."""
        reason = "the retrospective transport begins in the second epoch; add --set back_weight=0 to leave it out"
        return reason if self.back_weight else ""

    def make_net(self) -> Network[CosineHead]:
        return self.network_with(CosineHead, last_relu=False)

    def begin(self, task: Task) -> None:
        super().begin(task)
        if task.num_old:
            self.transport_forward()

    @torch.no_grad()
    def transport_forward(self) -> None:
        """Transport old rows to the new classes, and initialise the new rows with them."""
        old, new = self.means()
        self.ahead = transport(old, new, self.net.head.old, self.regularisation)
        self.net.head.new.copy_(self.ahead)

    @torch.no_grad()
    def transport_back(self) -> None:
        """Transport new rows to the old classes, by the present means."""
        old, new = self.means()
        self.net.train()
        self.back = transport(new, old, self.net.head.new, self.regularisation)

    def means(self) -> tuple[Tensor, Tensor]:
        """Compute unit class means: of old classes from exemplars, of new classes from all their images."""
        task, head = self.task, self.net.head
        old = self._means(self.memory.samples, 0, task.num_old)
        has_exemplars = old.norm(dim=1, keepdim=True) > 0
        old = torch.where(has_exemplars, old, F.normalize(head.old))  # otherwise, the row takes the place of the mean
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
        scores, old = self.net.classify(features), self.teacher_scores(batch)
        losses = self.terms(scores, old, batch)
        if old is not None and batch.epoch == 0:
            targets = self._cosines(features.detach(), self.ahead)
            losses["ahead"] = self.ahead_weight * distillation(scores[:, num_old:], targets, self.temperature)
        elif old is not None:
            weight = self.back_weight * batch.progress**2
            losses["back"] = weight * distillation(self._cosines(features, self.back), old, self.temperature)
        return losses

    def _cosines(self, features: Tensor, rows: Tensor) -> Tensor:
        return F.normalize(features) @ F.normalize(rows).T
