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
    """Learning without Forgetting, in PyCIL's form.

    `L = CE(z_new, y) + 3 KD_2(z_old, q)`

    References:
        Z. Li and D. Hoiem. Learning without Forgetting. ECCV 2016.

    Example:
        >>> LwF(strength=1.0).loss_weights()
        (1.0, 1.0)
    """

    name = "lwf"
    title = "LwF"
    paper = "Learning without Forgetting (ECCV 2016); PyCIL's form"
    summary = "keeps no images: learns new classes on their own logits and keeps old logits close to the teacher's"
    deviations = (
        "no exemplars, although the UPCL paper states that all methods rehearse alike; distillation weight 3 (PyCIL)"
    )
    recipes = Recipes(
        first=Recipe(epochs=200, milestones=(60, 120, 160)),
        later=Recipe(epochs=250, milestones=(60, 120, 180, 220), weight_decay=2e-4),
    )
    uses_memory = False

    strength: NonNegative = option(3.0, "weight of the distillation", "PyCIL; FACIL has 1")

    def make_net(self) -> Network[LinearHead]:
        return self.network_with(LinearHead)

    def loss_weights(self) -> tuple[float, float]:
        return 1.0, self.strength

    def classification(self, scores: Tensor, batch: Batch) -> Tensor:
        num_old = self.task.num_old
        return F.cross_entropy(scores[:, num_old:], batch.labels - num_old)
