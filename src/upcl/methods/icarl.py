"""iCaRL (Rebuffi et al., CVPR 2017): exemplars, and distillation of the old classes' logits."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from ..core import Batch, Losses, Positive, Recipe, Recipes, option
from ..losses import distillation
from .base import LinearMethod


@dataclass(kw_only=True, eq=False)
class ICarl(LinearMethod):
    name = "icarl"
    title = "iCaRL"
    paper = "iCaRL: Incremental Classifier and Representation Learning (CVPR 2017); PyCIL's form"
    idea = "replays exemplars chosen by herding and keeps the old classes' logits near the teacher's"
    recipes = Recipes(
        first=Recipe(epochs=200, milestones=(60, 120, 170)),
        later=Recipe(epochs=170, milestones=(80, 120), weight_decay=2e-4),
    )

    temperature: Positive = option(2.0, "temperature of the distillation", "PyCIL")

    def losses(self, batch: Batch) -> Losses:
        scores = self.net(batch.inputs)
        losses = {"ce": self.classification(scores, batch.labels)}
        if self.teacher:
            old = self.teacher(batch.inputs)
            losses["kd"] = distillation(scores[:, : self.task.num_old], old, self.temperature)
        return losses

    def classification(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The term that methods built on iCaRL replace."""
        return F.cross_entropy(scores, labels)
