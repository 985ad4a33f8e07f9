"""Finetune: train on the new task alone. The lower bound."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F

from upcl.core.options import option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses

from .base import LinearMethod


@dataclass(kw_only=True, eq=False)
class Finetune(LinearMethod):
    name = "finetune"
    title = "Finetune"
    paper = "the field's lower bound; PyCIL's form"
    summary = "keeps nothing of the past: no exemplars, no teacher"
    recipes = Recipes(
        first=Recipe(epochs=200, milestones=(60, 120, 170)),
        later=Recipe(epochs=80, milestones=(40, 70), weight_decay=2e-4),
    )
    uses_memory = False
    uses_teacher = False

    full_ce: bool = option(False, "cross-entropy over all seen classes, not the new ones only", "PyCIL masks old ones")

    def losses(self, batch: Batch) -> Losses:
        scores = self.net(batch.inputs)
        if self.full_ce:
            return {"ce": F.cross_entropy(scores, batch.labels)}
        num_old = self.task.num_old
        return {"ce": F.cross_entropy(scores[:, num_old:], batch.labels - num_old)}
