"""TagFex (Zheng et al., CVPR 2025): a task-agnostic network, trained by self-supervision, guides each new backbone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch.nn.functional as F
from torch import Tensor

from upcl.core.losses import view_contrast
from upcl.core.options import Fraction, Natural, NonNegative, Positive, option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Stage, Task
from upcl.nets import LinearHead, Network, frozen_copy, make_backbone
from upcl.nets.guided import GuidedNetwork, Views

from .base import Method

_RECIPE = Recipe(epochs=200, milestones=(60, 120, 170), augment="trivial", erase=0.5)


@dataclass(kw_only=True, eq=False)
class TagFex(Method[LinearHead]):
    """Task-Agnostic Guided Feature Expansion.

    `L = CE(z, y) + lambda_a CE(a, y') + lambda_c ((1 - l) NCE(p, p) + lambda_d l NCE(P q, P f_old)) + CE_new(m, y) +
    KL_new(m || z)` on two views of each image, with `l = C_old / C`. z are scores from the features of all backbones,
    and a those of the newest one alone, where y' is 0 for every old class. NCE contrasts the views by task-agnostic
    features: projected ones p; and those of the last task f_old with their prediction q, in the last task's projection
    P. m are scores from the newest map after it attended to the task-agnostic one. CE_new and KL_new are means over
    images and scores of new classes; KL_new counts where m classifies better than z.

    References:
        B. Zheng, D.-W. Zhou, H.-J. Ye and D.-C. Zhan. Task-Agnostic Guided Feature Expansion for Class-Incremental
        Learning. CVPR 2025.

    Example:
        >>> TagFex(contrast=0.5).contrast_tau
        0.2
    """

    name = "tagfex"
    title = "TagFex"
    paper = "Task-Agnostic Guided Feature Expansion for Class-Incremental Learning (CVPR 2025)"
    summary = (
        "adds a backbone with every task, guided by a task-agnostic network that learns from two views of each image"
    )
    deviations = (
        "TrivialAugment and random erasing instead of AutoAugment and Cutout; a new backbone takes over the batch-norm "
        "statistics of the one before; torch's initial values for the new linear layers beside the head"
    )
    recipes = Recipes(
        first=_RECIPE, later=dataclasses.replace(_RECIPE, epochs=170, milestones=(80, 120, 150), weight_decay=2e-4)
    )
    net: GuidedNetwork = field(init=False, repr=False)

    auxiliary: NonNegative = option(2.0, "lambda_a, the weight of the newest backbone's own scores", "official code")
    contrast: NonNegative = option(1.0, "lambda_c, the weight of self-supervision", "official code")
    contrast_kd: NonNegative = option(
        2.0, "lambda_d, the weight of predicting the last task's features", "official code"
    )
    contrast_tau: Positive = option(0.2, "temperature of both contrasts", "official code")
    transfer: NonNegative = option(1.0, "weight of classifying merged features", "official code")
    transfer_kd: NonNegative = option(1.0, "weight of distilling the scores of merged features", "official code")
    temperature: Positive = option(2.0, "temperature of that distillation", "official code")
    agnostic_share: Fraction = option(
        0.05, "share of task-agnostic weights that a backbone begins with", "official code"
    )
    num_heads: Natural = option(8, "attention heads", "official code")
    hidden: Natural = option(2048, "hidden units of the projector", "official code; ResNet-32: 512")
    projected: Natural = option(1024, "dimensions of projected features", "official code; ResNet-32: 128")

    @property
    def frozen_obstacle(self) -> str:
        """New backbones must be trained."""
        return "every task adds a backbone"

    def make_net(self) -> GuidedNetwork:
        return GuidedNetwork(
            lambda: make_backbone(self.setting.backbone, self.setting.channels),
            num_heads=self.num_heads,
            hidden=self.hidden,
            projected=self.projected,
            agnostic_share=self.agnostic_share,
        )

    def learn(self, task: Task) -> Iterator[Stage]:
        self.begin(task)
        yield self.stage()
        self.net.head.align(task.num_old)
        self.net.end_task()
        self.remember()

    def freeze_teacher(self) -> Network[LinearHead]:
        return frozen_copy(self.net.agnostic)

    def stage(self) -> Stage:
        """Return the main stage: everything but the older backbones is trained, on two views of each image."""
        older = list(self.net.backbone.branches[:-1])
        fixed = {id(p) for module in (*older, self.net.agnostic.head) for p in module.parameters()}
        params = [p for p in self.net.parameters() if id(p) not in fixed]
        return dataclasses.replace(super().stage(), params=params, frozen=older, views=2)

    def losses(self, batch: Batch) -> Losses:
        old = self.teacher.embed(batch.inputs) if self.teacher else None
        views = self.net.view(batch.inputs)
        projected, scores = self.net.project(views), self.net.classify(views.features)
        losses = {
            "ce": F.cross_entropy(scores, batch.labels),
            "contrast": self.contrast * (1 - self.old_share) * view_contrast(projected, projected, self.contrast_tau),
        }
        if self.teacher and old is not None:
            predicted = self.teacher.projector(self.net.predict(views))
            weight = self.contrast * self.contrast_kd * self.old_share
            losses["contrast_kd"] = weight * view_contrast(predicted, old, self.contrast_tau)
            targets = (batch.labels - self.task.num_old + 1).clamp(min=0)
            losses["auxiliary"] = self.auxiliary * F.cross_entropy(self.net.auxiliary_scores(views.features), targets)
            losses |= self.transfer_losses(views, scores, batch.labels, losses["ce"])
        return losses

    def transfer_losses(self, views: Views, scores: Tensor, labels: Tensor, ce: Tensor) -> Losses:
        """Compute the terms of the merged features, over the images of new classes.

        Args:
            views: what the networks see.
            scores: scores of all classes (B x C).
            labels: classes (B).
            ce: the loss of these scores.
        """
        num_old, merged = self.task.num_old, self.net.transfer_scores(views)
        is_new = (labels >= num_old).to(scores.dtype)

        def mean(values: Tensor) -> Tensor:
            return (values * is_new).sum() / is_new.sum().clamp(min=1)

        learned = mean(F.cross_entropy(merged, (labels - num_old).clamp(min=0), reduction="none"))
        soft = (merged.detach() / self.temperature).softmax(1)
        log_scores = (scores[:, num_old:] / self.temperature).log_softmax(1)
        distilled = mean(F.kl_div(log_scores, soft, reduction="none").sum(1))
        is_better = (learned < ce).to(scores.dtype)  # decided on the device
        return {"transfer": self.transfer * learned, "transfer_kd": self.transfer_kd * is_better * distilled}
