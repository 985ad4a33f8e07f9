"""iCaRL (Rebuffi et al., CVPR 2017): exemplars, and distillation of the logits of old classes."""

from __future__ import annotations

from dataclasses import dataclass

from upcl.core.recipes import Recipe, Recipes
from upcl.nets import Head, LinearHead, Network

from .distillation import DistillationMethod


@dataclass(kw_only=True, eq=False)
class ICaRL(DistillationMethod[Head]):
    """iCaRL in PyCIL's form: herded exemplars and distillation.

    `L = CE(z, y) + KD_2(z_old, q)`, where q are the teacher's logits.

    References:
        S.-A. Rebuffi, A. Kolesnikov, G. Sperl and C. H. Lampert. iCaRL: Incremental Classifier and Representation
        Learning. CVPR 2017.

    Example:
        >>> ICaRL(temperature=4.0).loss_weights()
        (1.0, 1.0)
    """

    name = "icarl"
    title = "iCaRL"
    paper = "iCaRL: Incremental Classifier and Representation Learning (CVPR 2017); PyCIL's form"
    summary = "replays exemplars chosen by herding and keeps the logits of old classes close to the teacher's"
    deviations = (
        "softmax losses with T = 2 and weights 1:1 (PyCIL) instead of the original's sigmoids; both the head and the "
        "nearest mean are recorded"
    )
    recipes = Recipes(
        first=Recipe(epochs=200, milestones=(60, 120, 170)),
        later=Recipe(epochs=170, milestones=(80, 120), weight_decay=2e-4),
    )

    def make_net(self) -> Network[Head]:
        return self.network_with(LinearHead)
