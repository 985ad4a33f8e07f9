"""UPCL: uniform prototype contrastive learning, the method of "Rethinking Class-Incremental Learning from a Dynamic
Imbalanced Learning Perspective"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core import Batch, Count, Fraction, Losses, Positive, Recipe, Recipes, Task, option
from ..losses import cosine_distillation, log_prior, prototype_contrast, supervised_contrast, target_margin
from ..nets import Network, PrototypeHead
from .base import Method

Margin = Literal["prior", "paper_literal", "fixed", "columns", "none"]
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
class UPCL(Method[PrototypeHead]):
    """L = (1 - lambda_2) (lambda_1 L_feat + g L_proto) + lambda_2 L_FKD, with lambda_2 = C_old / C (0 in task 0)."""

    name = "upcl"
    title = "UPCL"
    paper = "Rethinking Class-Incremental Learning from a Dynamic Imbalanced Learning Perspective"
    idea = (
        "pulls features to fixed orthonormal prototypes, matched to classes online, with a margin from the class prior"
    )
    recipes = Recipes(
        first=Recipe(epochs=200, batch_size=256, milestones=(60, 120, 170)),
        later=Recipe(epochs=170, batch_size=256, milestones=(80, 120, 150), weight_decay=2e-4),
    )
    official: ClassVar = {"lose_task0_assignment": True}

    tau: Positive = option(0.07, "temperature of both contrasts", "official code; the paper gives a symbol only")
    margin: Margin = option(
        "prior",
        "'prior': cos/tau + log p. 'paper_literal': (cos + log p)/tau. 'fixed': margin_size off the target's cosine. "
        "'columns': fixed margins of old and new columns. 'none'",
        "official code; the paper's literal form asks for cosine gaps above 2 (table 8.3, rows 2 and 5)",
    )
    margin_size: float = option(0.1, "margin of 'fixed' and, for new columns, of 'columns'", "paper's ablation")
    margin_old: float = option(0.2, "margin of old columns for 'columns'", "not published; any value but margin_size")
    lambda_1: LambdaOne = option("1/2^t", "weight of L_feat in task t = 0, 1, ...", "paper's appendix and code")
    proto_warmup: Count = option(
        51,
        "epochs before L_proto starts, counted on this method's own recipe and scaled with it",
        "code; 0 in the paper",
    )
    supcon_self: bool = option(True, "an image is among its own positives in L_feat", "official code (row 8)")
    ema: Fraction = option(0.9, "share of the old centroid in its moving average", "official code (row 13)")
    assign: Literal["cosine", "l2"] = option(
        "cosine", "what the matching makes best", "code; the paper says l2 (row 10)"
    )
    assign_every: Literal["batch", "epoch"] = option("batch", "how often classes are matched", "official code (row 11)")
    projector: Count = option(0, "dimensions of a linear projector before the prototypes; 0: none", "code (row 24)")
    last_relu: bool = option(True, "keep the backbone's last ReLU: features are then not negative", "code (row 22)")
    lose_task0_assignment: bool = option(
        False, "forget the first task's matching when the second begins", "what the official code does on a GPU (8.4)"
    )

    def make_net(self) -> Network[PrototypeHead]:
        backbone = self.setting.make_backbone(self.last_relu)
        return Network(backbone, PrototypeHead(self.projector or backbone.dim), projected=self.projector > 0)

    def begin(self, task: Task) -> None:
        super().begin(task)
        head = self.net.head
        if self.lose_task0_assignment and task.index == 1:
            head.assignment = torch.arange(head.num_classes, device=head.assignment.device)
        self.log_prior = log_prior(self.counts).to(self.setting.device)

    def losses(self, batch: Batch) -> Losses:
        unit = F.normalize(self.net.embed(batch.inputs))
        self._match(unit.detach(), batch)
        past = self.old_share
        factor, base = LAMBDA_ONE[self.lambda_1]
        feat = supervised_contrast(unit, batch.labels, self.tau, self_pair=self.supcon_self)
        losses = {"feat": (1 - past) * factor * base**self.task.index * feat}
        if batch.progress * self.recipes.of(self.task).epochs >= self.proto_warmup:
            cosines = unit @ self.net.head.prototypes.T
            losses["proto"] = (1 - past) * prototype_contrast(
                cosines, batch.labels, self.tau, self._margin(batch.labels)
            )
        if self.teacher:
            losses["fkd"] = past * cosine_distillation(unit, F.normalize(self.teacher.embed(batch.inputs)))
        return losses

    def _match(self, unit: Tensor, batch: Batch) -> None:
        self.net.head.follow(unit, batch.labels, self.ema)
        if self.assign_every == "batch" or batch.step == 0:
            self.net.head.match(self.task.num_old, by_distance=self.assign == "l2")

    def _margin(self, labels: Tensor) -> Tensor | None:
        """What is added to the logits cos / tau."""
        if self.margin == "prior":
            return self.log_prior
        if self.margin == "paper_literal":
            return self.log_prior / self.tau
        if self.margin == "fixed":
            return target_margin(labels, self.task.num_seen, self.margin_size / self.tau)
        if self.margin == "columns":
            is_old = torch.arange(self.task.num_seen, device=labels.device) < self.task.num_old
            return -torch.where(is_old, self.margin_old, self.margin_size) / self.tau
        return None
