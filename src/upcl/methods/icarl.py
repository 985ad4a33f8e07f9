"""iCaRL (Rebuffi et al., CVPR 2017): exemplars, and distillation of the old classes' logits."""

from __future__ import annotations

from dataclasses import dataclass

from upcl.core.recipes import Recipe, Recipes
from upcl.nets import Head, LinearHead, Network

from .distillation import DistillationMethod


@dataclass(kw_only=True, eq=False)
class ICaRL(DistillationMethod[Head]):
    name = "icarl"
    title = "iCaRL"
    paper = "iCaRL: Incremental Classifier and Representation Learning (CVPR 2017); PyCIL's form"
    summary = "replays exemplars chosen by herding and keeps the old classes' logits near the teacher's"
    deviations = (
        "softmax losses at T = 2, weights 1:1 (PyCIL), not the original's sigmoids; head and nearest mean are recorded"
    )
    recipes = Recipes(
        first=Recipe(epochs=200, milestones=(60, 120, 170)),
        later=Recipe(epochs=170, milestones=(80, 120), weight_decay=2e-4),
    )

    def make_net(self) -> Network[Head]:
        return self.build(LinearHead)
