"""UPCL+: UPCL with prototypes that features can reach."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from torch import Tensor

from upcl.core.frames import extend_nonnegative
from upcl.core.losses import cosine_distillation, distillation
from upcl.core.options import Natural, NonNegative, Positive, option
from upcl.nets import PrototypeHead

from .base import TermWeights
from .upcl import UPCL, Prototypes


@dataclass(kw_only=True, eq=False)
class UPCLPlus(UPCL):
    """UPCL with reachable prototypes and terms of the same strength in every task.

    `L = lambda_1 L_feat + L_proto + w (L_FKD + L_KD)` with `w = C_old / C_new`, or with `weighting="missing"`
    `w = C_old n / N`, where n is the mean number of images of a new class and N the number of all images: nearly the
    same with few exemplars and many new images, and C_old / C if no image were missing.
    Features behind a ReLU are never negative, so they come no closer than a cosine of about 0.7 to a random prototype.
    Here, every prototype owns a few feature dimensions: prototypes are orthonormal, as in UPCL, and nowhere negative.
    The prior may ask for no larger gap of cosines than `prior_reach`.

    References:
        This project: docs/upcl-plus.md. It builds on L. Wang, L. Xiang, Y. Wang, H. Wu and Z. He. Rethinking
        Class-Incremental Learning from a Dynamic Imbalanced Learning Perspective. arXiv, 2024.

    Example:
        >>> UPCLPlus().prototypes
        'nonnegative'
    """

    name = "upcl+"
    title = "UPCL+"
    paper = "this project (docs/upcl-plus.md), on Rethinking Class-Incremental Learning (arXiv 2024)"
    summary = (
        "UPCL with prototypes within reach of features behind a ReLU, and terms of the same strength in every task"
    )
    deviations = "not in any paper: see docs/upcl-plus.md"
    official_options: ClassVar = {}

    prototypes: Prototypes = option("nonnegative", "the kind of prototypes, as in upcl", "this package")
    prior_reach: NonNegative = option(
        0.2,
        "largest difference of cosines that the prior may ask for; 0: no bound",
        "validation (docs/upcl-plus.md)",
    )
    coordinates: Natural = option(2, "feature dimensions that each prototype owns, if 'nonnegative'", "this package")
    weighting: TermWeights | None = option(
        "normalised",
        "weights of the terms, as in upcl, or 'missing': distillation is weighted by C_old n / N, where n is the mean "
        "number of images of a new class, and N the number of all images",
        "validation (docs/upcl-plus.md)",
    )
    distil: Literal["features", "cosines", "both"] = option(
        "both",
        "what is distilled: features (L_FKD), cosines to the old prototypes (KD_T), or both",
        "validation (docs/upcl-plus.md)",
    )
    temperature: Positive = option(2.0, "temperature T of the distillation of cosines / tau", "this package")
    distil_weight: NonNegative = option(1.0, "factor on the distillation", "this package")

    def make_head(self, dim: int) -> PrototypeHead:
        if self.prototypes == "nonnegative":
            return PrototypeHead(dim, extend_frame=partial(extend_nonnegative, owned=self.coordinates))
        return super().make_head(dim)

    def distillation(self, unit: Tensor, old: Tensor) -> Tensor:
        loss = unit.new_zeros(())
        if self.distil != "cosines":
            loss = loss + cosine_distillation(unit, old)
        if self.distil != "features":
            vectors = self.net.head.vectors[: self.task.num_old].T / self.tau
            loss = loss + distillation(unit @ vectors, old @ vectors, self.temperature)
        return self.distil_weight * loss
