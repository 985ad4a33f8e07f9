"""UPCL (Wang et al., 2024): uniform prototype contrastive learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from upcl.core import frames
from upcl.core.errors import UserError
from upcl.core.losses import cosine_distillation, prototype_contrast, supervised_contrast
from upcl.core.options import Count, Fraction, Positive, option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Task
from upcl.nets import Network, PrototypeHead, make_backbone

from .base import TermWeights
from .margin import MarginMethod

Prototypes = Literal["uniform", "orthonormal", "nonnegative", "gaussian", "simplex", "energy"]
SHORT = 100  # epochs: a schedule of fewer is short; the official code's have 170 and 200
OFFICIAL_WARMUP = 51  # epochs
GROWING = {
    "uniform": frames.extend_uniform,
    "orthonormal": frames.extend_orthonormal,
    "nonnegative": frames.extend_nonnegative,
    "gaussian": frames.extend_gaussian,
}
FIXED = {"simplex": frames.simplex, "energy": frames.minimum_energy}
LambdaOne = Literal["1/2^t", "1/10^t", "2^t", "0.1", "1", "2"]
LAMBDA_ONE: dict[LambdaOne, tuple[float, float]] = {  # (a, b) for a * b^t
    "1/2^t": (1, 0.5),
    "1/10^t": (1, 0.1),
    "2^t": (1, 2),
    "0.1": (0.1, 1),
    "1": (1, 1),
    "2": (2, 1),
}


@dataclass(kw_only=True, eq=False)
class UPCL(MarginMethod[PrototypeHead]):
    """Uniform Prototype Contrastive Learning.

    `L = (1 - lambda_2) (lambda_1 L_feat + g L_proto) + lambda_2 L_FKD` with `lambda_2 = C_old / C` (0 in the first
    task) and g = 0 in the first `proto_warmup` epochs, else 1. L_feat is supervised contrast between the features of a
    batch, `L_proto = CE(cos / tau + log p, y)` contrasts features with the prototypes, and L_FKD is the mean of 1 -
    cos(f, f_old). The prototypes are fixed and orthonormal; those of the new classes are assigned to them in every
    batch. By default, schedules of fewer than 100 epochs have g = 1 throughout and both weights divided by
    1 - lambda_2.

    References:
        L. Wang, L. Xiang, Y. Wang, H. Wu and Z. He. Rethinking Class-Incremental Learning from a Dynamic Imbalanced
        Learning Perspective. arXiv, 2024.

    Example:
        >>> UPCL(tau=0.1, prototypes="simplex").needs_num_classes
        True
    """

    name = "upcl"
    title = "UPCL"
    paper = "Rethinking Class-Incremental Learning from a Dynamic Imbalanced Learning Perspective"
    summary = "attracts features to fixed orthonormal prototypes, assigned online, with a margin from the class prior"
    deviations = (
        "follows the official code where it differs from the paper's text, without its defects: see docs/parity.md"
    )
    recipes = Recipes(
        first=Recipe(epochs=200, batch_size=256, milestones=(60, 120, 170)),
        later=Recipe(epochs=170, batch_size=256, milestones=(80, 120, 150), weight_decay=2e-4),
    )
    official_options: ClassVar = {"lose_task0_assignment": True, "proto_warmup": 51, "weighting": "share"}

    prototypes: Prototypes = option(
        "uniform",
        "'uniform': orthonormal, and placed by repulsion beyond the number of feature dimensions; 'orthonormal': an "
        "error there; 'nonnegative': orthonormal, and within reach of features behind a ReLU; 'gaussian': random "
        "directions; 'simplex', 'energy': fixed in advance for all classes of the run",
        "the paper: orthonormal; its limit is lifted here",
    )
    tau: Positive = option(0.07, "temperature of both contrasts", "official code; the paper gives a symbol only")
    lambda_1: LambdaOne = option("1/2^t", "weight of L_feat in task t = 0, 1, ...", "paper's appendix and code")
    proto_warmup: Count | None = option(
        None,
        "epochs before L_proto starts, relative to this method's own recipe and scaled with the epochs; by default 51, "
        f"and 0 in schedules of fewer than {SHORT} epochs",
        "code: 51; the paper: 0",
    )
    weighting: TermWeights | None = option(
        None,
        "'share': weights C_new / C and C_old / C; 'normalised': both divided by C_new / C; by default 'share', and "
        f"'normalised' in schedules of fewer than {SHORT} epochs",
        "paper and code: share",
    )
    supcon_self: bool = option(True, "count an image among its own positives in L_feat", "official code (row 8)")
    ema: Fraction = option(0.9, "share of the old centroid in its moving average", "official code (row 13)")
    assign: Literal["cosine", "l2"] = option(
        "cosine",
        "maximise the sum of cosines or minimise the sum of distances between centroids and prototypes",
        "code; l2 in the paper (row 10)",
    )
    assign_every: Literal["batch", "epoch"] = option(
        "batch", "how often prototypes are assigned", "official code (row 11)"
    )
    projector: Count = option(0, "dimensions of a linear projector before the prototypes; 0: none", "code (row 24)")
    last_relu: bool = option(True, "keep the backbone's last ReLU, so that features are not negative", "code (row 22)")
    lose_task0_assignment: bool = option(
        False,
        "reset the assignment of the first task when the second begins",
        "what the official code does on a GPU (8.4)",
    )

    @property
    def needs_num_classes(self) -> bool:
        """Whether the prototypes are fixed in advance."""
        return self.prototypes in FIXED

    @property
    def online_obstacle(self) -> str:
        """L_proto would never start."""
        return "L_proto starts after proto_warmup epochs; add --set proto_warmup=0" if self.proto_warmup else ""

    @property
    def frozen_obstacle(self) -> str:
        """Prototypes are not trained."""
        return "" if self.projector else "it trains only the backbone and a projector, which --set projector=256 adds"

    def make_net(self) -> Network[PrototypeHead]:
        backbone = make_backbone(self.setting.backbone, self.setting.channels, self.last_relu)
        projector = nn.Linear(backbone.dim, self.projector) if self.projector else None
        return Network(backbone, self.make_head(self.projector or backbone.dim), projector)

    def make_head(self, dim: int) -> PrototypeHead:
        """Create the head with the chosen kind of prototypes.

        Args:
            dim: number of dimensions of the embeddings.
        """
        if self.prototypes in FIXED:
            return PrototypeHead(dim, frame=FIXED[self.prototypes](self.setting.num_classes, dim))
        if self.prototypes == "orthonormal" and self.setting.num_classes > dim:
            raise UserError(
                f"{self.setting.num_classes} orthonormal prototypes do not fit in {dim} feature dimensions: use "
                f"--set prototypes=uniform, a larger backbone, or --set projector={self.setting.num_classes}"
            )
        return PrototypeHead(dim, extend_frame=GROWING[self.prototypes])

    def begin(self, task: Task) -> None:
        super().begin(task)
        if self.lose_task0_assignment and task.index == 1:
            self.net.head.assignment = torch.arange(self.net.head.num_classes, device=self.setting.device)

    def losses(self, batch: Batch) -> Losses:
        old = self.teacher.embed(batch.inputs) if self.teacher else None  # first, so that its buffers are reused
        unit = F.normalize(self.net.embed(batch.inputs))
        self._assign(unit.detach(), batch)
        warmup, weighting = self.schedule
        learn, distil = self.term_weights(weighting)
        factor, base = LAMBDA_ONE[self.lambda_1]
        feat = supervised_contrast(unit, batch.labels, self.tau, self_pair=self.supcon_self)
        losses = {"feat": learn * factor * base**self.task.index * feat}
        if batch.epoch * self.recipes.of(self.task).epochs >= warmup * batch.epochs:
            cosines = unit @ self.net.head.vectors.T
            losses["proto"] = learn * prototype_contrast(
                cosines, batch.labels, self.tau, self.margin_on(batch.labels, 1 / self.tau)
            )
        if old is not None:
            losses["fkd"] = distil * self.distillation(unit, F.normalize(old))
        return losses

    def distillation(self, unit: Tensor, old: Tensor) -> Tensor:
        """Compute the distillation loss: L_FKD.

        Args:
            unit: unit embeddings of the student (B x d).
            old: unit embeddings of the teacher (B x d).
        """
        return cosine_distillation(unit, old)

    @property
    def schedule(self) -> tuple[int, TermWeights]:
        """Epochs before L_proto starts, relative to this method's own recipe, and the weights of the terms."""
        rule: tuple[int, TermWeights] = (0, "normalised") if self.recipe.epochs < SHORT else (OFFICIAL_WARMUP, "share")
        return rule[0] if self.proto_warmup is None else self.proto_warmup, self.weighting or rule[1]

    def _assign(self, unit: Tensor, batch: Batch) -> None:
        self.net.head.update_centroids(unit, batch.labels, self.ema)
        if self.assign_every == "batch" or batch.step == 0:
            labels = batch.labels if self.assign_every == "batch" else None
            self.net.head.assign(self.task.num_old, labels, by_distance=self.assign == "l2")
