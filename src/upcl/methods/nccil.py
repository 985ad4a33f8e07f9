"""NCCIL (Yang et al., 2023): features are attracted to the corners of a simplex that is fixed in advance."""

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
"""Over which share of the epochs targets move to the corners ("flying to collapse")."""


def flying_target(corners: Tensor, centroids: Tensor, progress: float) -> Tensor:
    """Compute targets between the centroids of classes and their corners: r E + (1 - r) c, normalised.

    Args:
        corners: corners E of the classes (C x d).
        centroids: centroids c of the classes (C x d).
        progress: the share r, from 0 (centroids) to 1 (corners).

    Example:
        >>> target = flying_target(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.6, 0.8]]), 0.25)
        >>> [round(value, 4) for value in target[0].tolist()]
        [0.7593, 0.6508]
    """
    return F.normalize(progress * corners + (1 - progress) * centroids)


@dataclass(kw_only=True, eq=False)
class NCCIL(Method[PrototypeHead]):
    """Neural Collapse Terminus, in the form of the UPCL repository by default.

    `L = 1/2 mean (v . w_y - 1)^2 + 5/2 mean (v . v_old - 1)^2`, where v is the unit feature and w_y the class's corner
    of a simplex for all classes. The corners of new classes are approached during training ("flying to collapse").

    References:
        Y. Yang, H. Yuan, X. Li, J. Wu, L. Zhang, Z. Lin, P. Torr, D. Tao and B. Ghanem. Neural Collapse Terminus: A
        Unified Solution for Class Incremental Learning and Its Variants. arXiv:2308.01746, 2023.

    Example:
        >>> NCCIL(flight="half").needs_num_classes
        True
    """

    name = "nccil"
    title = "NCCIL"
    paper = "Neural Collapse Terminus: A Unified Solution for Class Incremental Learning (2023)"
    summary = (
        "gives every class, present or future, a corner of one simplex; targets of new classes move there in training"
    )
    deviations = (
        "the UPCL repository's form without its defect (a zero centroid for the first new class); centroids come from "
        "images that are not augmented; 'official' has the authors' neck and weights, but neither their mixing of "
        "images nor their learning rates"
    )
    recipes = Recipes(
        first=Recipe(epochs=200, milestones=(60, 120, 170)),
        later=Recipe(epochs=170, milestones=(80, 120, 150), weight_decay=2e-4),
    )

    flight: Flight = option(
        "full",
        "targets of new classes move to their corners over all epochs ('full'), over half of them ('half'), or are "
        "there from the start ('off')",
        "both codes",
    )
    form: Literal["repository", "official"] = option(
        "repository", "the form of UPCL's repository or of the authors' code", "the paper's rows"
    )

    @property
    def needs_num_classes(self) -> bool:
        """True: the simplex is fixed in advance."""
        return True

    @property
    def online_obstacle(self) -> str:
        """Targets that begin at the centroids leave them in the second epoch; the official form moves at once."""
        moves_later = self.flight != "off" and self.form == "repository"
        return "targets begin to move to their corners in the second epoch; add --set flight=off" if moves_later else ""

    @property
    def frozen_obstacle(self) -> str:
        """Corners are not trained."""
        reason = "it trains only the backbone and a neck, which --set form=official adds"
        return "" if self.form == "official" else reason

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
        align, hold = self.loss_weights()
        losses = {"align": align * dot_regression(unit, self.targets_at(batch)[batch.labels])}
        if self.teacher:
            old = F.normalize(self.teacher.embed(batch.inputs))
            counted = (batch.labels < self.task.num_old).to(unit.dtype) if self.form == "official" else None
            losses["hold"] = hold * dot_regression(unit, old, counted)
        return losses

    def loss_weights(self) -> tuple[float, float]:
        """Return the weights of alignment and of distillation."""
        if self.form == "repository":
            return 1.0, 5.0
        first = self.net.growth[0]
        return 10.0 if self.task.index == 0 else 5.0, 50.0 * (self.task.num_old / first) ** 0.5

    def targets_at(self, batch: Batch) -> Tensor:
        """Compute the targets of all classes: corners, or points on the way there for new classes.

        Args:
            batch: the batch, for its epoch.
        """
        if self.flight == "off":
            return self.targets
        begun = batch.epoch + (self.form == "official")
        progress = min(begun / batch.epochs * (2 if self.flight == "half" else 1), 1.0)
        num_old = self.task.num_old
        return torch.cat([self.targets[:num_old], flying_target(self.targets[num_old:], self.centroids, progress)])
