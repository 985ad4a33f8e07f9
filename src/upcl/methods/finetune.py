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
    """Fine-tuning on the new classes alone, the lower bound of the field (PyCIL's form).

    `L = CE(z_new, y)`: cross-entropy over the logits of the new classes only.

    References:
        D.-W. Zhou, F.-Y. Wang, H.-J. Ye and D.-C. Zhan. PyCIL: A Python Toolbox for Class-Incremental Learning.
        SCIENCE CHINA Information Sciences, 2023.

    Example:
        >>> Finetune(full_ce=True).uses_memory
        False
    """

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

    full_ce: bool = option(
        False, "cross-entropy over all classes seen instead of the new ones only", "PyCIL masks old classes"
    )

    def losses(self, batch: Batch) -> Losses:
        scores = self.net(batch.inputs)
        if self.full_ce:
            return {"ce": F.cross_entropy(scores, batch.labels)}
        num_old = self.task.num_old
        return {"ce": F.cross_entropy(scores[:, num_old:], batch.labels - num_old)}
