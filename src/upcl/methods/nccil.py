"""NCCIL (Yang et al., 2023): features are drawn to the corners of a simplex fixed in advance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from upcl.core.frames import simplex
from upcl.core.losses import dot_regression
from upcl.core.memory import class_means
from upcl.core.options import option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Task
from upcl.nets import Network, PrototypeHead, make_backbone

from .base import Method

Flight = Literal["full", "half", "off"]


def flying_target(corners: Tensor, centroids: Tensor, progress: float) -> Tensor:
    """Targets on their way from where the classes are to the corners: normalised r E + (1 - r) c."""
    return F.normalize(progress * corners + (1 - progress) * centroids)


@dataclass(kw_only=True, eq=False)
class NCCIL(Method[PrototypeHead]):
    name = "nccil"
    title = "NCCIL"
    paper = "Neural Collapse Terminus: A Unified Solution for Class Incremental Learning (2023)"
    summary = (
        "every class, present or future, owns a corner of one simplex; new classes' targets fly there during training"
    )
    deviations = (
        "the UPCL repository's form without its defect (a zero centroid for the first new class); centroids come from "
        "plain images; 'official' has the authors' neck and weights, not their mixing of images nor learning rates"
    )
    recipes = Recipes(
        first=Recipe(epochs=200, milestones=(60, 120, 170)),
        later=Recipe(epochs=170, milestones=(80, 120, 150), weight_decay=2e-4),
    )

    flight: Flight = option(
        "full",
        "new classes' targets fly to the corner over all epochs, over half of them, or are there at once",
        "both codes",
    )
    form: Literal["repository", "official"] = option(
        "repository", "UPCL's repository, or the authors' code", "the paper's rows"
    )

    @property
    def needs_num_classes(self) -> bool:
        return True

    def make_net(self) -> Network[PrototypeHead]:
        backbone = make_backbone(self.setting.backbone, self.setting.channels)
        dim = backbone.dim
        neck = (nn.Linear(dim, dim), nn.LayerNorm(dim), nn.LeakyReLU(0.1), nn.Linear(dim, dim), nn.BatchNorm1d(dim))
        head = PrototypeHead(dim, frame=simplex(self.setting.num_classes, dim))
        return Network(backbone, head, nn.Sequential(*neck) if self.form == "official" else None)

    def begin(self, task: Task) -> None:
        super().begin(task)
        self.targets = self.net.head.vectors
        with torch.no_grad():
            embedded = self.net.projector(self.extract(task.train))
            labels = task.train.labels.to(embedded.device) - task.num_old
            self.centroids = class_means(embedded, labels, task.num_new)

    def losses(self, batch: Batch) -> Losses:
        unit = F.normalize(self.net.embed(batch.inputs))
        align, hold = self.weights()
        losses = {"align": align * dot_regression(unit, self.targets_at(batch)[batch.labels])}
        if self.teacher:
            old = F.normalize(self.teacher.embed(batch.inputs))
            counted = (batch.labels < self.task.num_old).to(unit.dtype) if self.form == "official" else None
            losses["hold"] = hold * dot_regression(unit, old, counted)
        return losses

    def weights(self) -> tuple[float, float]:
        """Of alignment and of distillation."""
        if self.form == "repository":
            return 1.0, 5.0
        first = self.net.growth[0]
        return 10.0 if self.task.index == 0 else 5.0, 50.0 * (self.task.num_old / first) ** 0.5

    def targets_at(self, batch: Batch) -> Tensor:
        """Corners; those of new classes as far as they have flying_target."""
        if self.flight == "off":
            return self.targets
        begun = batch.epoch + (self.form == "official")
        progress = min(begun / batch.epochs * (2 if self.flight == "half" else 1), 1.0)
        num_old = self.task.num_old
        return torch.cat([self.targets[:num_old], flying_target(self.targets[num_old:], self.centroids, progress)])
