"""LwF (Li and Hoiem, ECCV 2016): distillation alone, no exemplars."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from upcl.core.options import NonNegative, option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch
from upcl.nets import LinearHead, Network

from .distillation import DistillationMethod


@dataclass(kw_only=True, eq=False)
class LwF(DistillationMethod[LinearHead]):
    name = "lwf"
    title = "LwF"
    paper = "Learning without Forgetting (ECCV 2016); PyCIL's form"
    summary = "keeps no image: new classes are learned on their own logits, old ones held by the teacher's"
    deviations = "no exemplars, although the paper says that all methods rehearse alike; distillation weight 3 (PyCIL)"
    recipes = Recipes(
        first=Recipe(epochs=200, milestones=(60, 120, 160)),
        later=Recipe(epochs=250, milestones=(60, 120, 180, 220), weight_decay=2e-4),
    )
    uses_memory = False

    strength: NonNegative = option(3.0, "weight of the distillation", "PyCIL; FACIL has 1")

    def make_net(self) -> Network[LinearHead]:
        return self.build(LinearHead)

    def weights(self) -> tuple[float, float]:
        return 1.0, self.strength

    def classification(self, scores: Tensor, batch: Batch) -> Tensor:
        num_old = self.task.num_old
        return F.cross_entropy(scores[:, num_old:], batch.labels - num_old)
