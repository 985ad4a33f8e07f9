"""Replay: train on new images and exemplars together. The simplest method with a memory."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F

from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses

from .base import LinearMethod


@dataclass(kw_only=True, eq=False)
class Replay(LinearMethod):
    """Experience replay of herded exemplars, in PyCIL's form: no distillation, no correction.

    `L = CE(z, y)` over all classes seen, on new images and exemplars.

    References:
        D. Rolnick, A. Ahuja, J. Schwarz, T. Lillicrap and G. Wayne. Experience Replay for Continual Learning. NeurIPS
        2019.

    Example:
        >>> Replay().uses_teacher
        False
    """

    name = "replay"
    title = "Replay"
    paper = "Experience Replay for Continual Learning (NeurIPS 2019); PyCIL's form"
    summary = "trains on new images and exemplars with cross-entropy alone"
    deviations = "exemplars are selected as for every other method (herding), not by reservoir sampling"
    recipes = Recipes(
        first=Recipe(epochs=200, milestones=(60, 120, 170)),
        later=Recipe(epochs=70, milestones=(30, 50), weight_decay=2e-4),
    )
    uses_teacher = False

    def losses(self, batch: Batch) -> Losses:
        return {"ce": F.cross_entropy(self.net(batch.inputs), batch.labels)}
