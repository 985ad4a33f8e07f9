"""ScrollNet (Yang et al., ICCVW 2023): sub-networks of a slimmable network, whose channels roll from task to task."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.losses import distillation
from upcl.core.options import Natural, NonNegative, Positive, option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Task
from upcl.nets import LinearHead, Network, SlimmableBackbone
from upcl.nets.registry import RESNETS

from .base import Method

_RECIPE = Recipe(epochs=200, batch_size=64, milestones=(80, 120), momentum=0.0, weight_decay=0.0, clip=1e4)


@dataclass(kw_only=True, eq=False)
class ScrollNet(Method[LinearHead]):
    """ScrollNet on LwF with exemplars.

    `L = sum_w CE(z^w, y) + KD_2(z_old, q)`: one classification term per width w of the network, and distillation at
    full width.

    References:
        F. Yang, K. Wang and J. van de Weijer. ScrollNet: Dynamic Weight Importance for Continual Learning. ICCV
        Workshops 2023.

    Example:
        >>> ScrollNet(over="finetune").num_subnets
        4
    """

    name = "scrollnet"
    title = "ScrollNet"
    paper = "ScrollNet: Dynamic Weight Importance for Continual Learning (ICCV workshop 2023)"
    summary = (
        "trains every width of a slimmable network and rolls its channels, so that each task relies on another "
        "sub-network"
    )
    deviations = (
        "on LwF with exemplars (the UPCL paper does not name the base method); batch norms roll with their channels "
        "(in the official code they do not, and no longer match); shortcuts are convolutions; no validation split"
    )
    recipes = Recipes(first=_RECIPE, later=_RECIPE)

    over: Literal["lwf", "finetune"] = option(
        "lwf", "with or without distillation at full width", "this package; the UPCL paper does not say"
    )
    num_subnets: Natural = option(4, "number of equal groups of channels", "official code")
    strength: NonNegative = option(1.0, "weight of the distillation", "official code")
    temperature: Positive = option(2.0, "temperature of the distillation", "official code")

    @property
    def frozen_obstacle(self) -> str:
        """Features have no channels of single layers."""
        return "it rolls the channels of the backbone"

    def make_net(self) -> Network[LinearHead]:
        config = RESNETS.get(self.setting.backbone)
        if config is None:
            raise UserError(
                f"ScrollNet splits residual stages, which backbone '{self.setting.backbone}' does not have: use "
                "medium, resnet32 or resnet18"
            )
        backbone = SlimmableBackbone(config, self.setting.channels, self.num_subnets)
        return Network(backbone, LinearHead(backbone.dim))

    @property
    def backbone(self) -> SlimmableBackbone:
        """The network's backbone."""
        assert isinstance(self.net.backbone, SlimmableBackbone)
        return self.net.backbone

    def begin(self, task: Task) -> None:
        """Begin the task with its scroll; the teacher keeps the scroll of the last task.

        Args:
            task: the task to learn.
        """
        super().begin(task)
        self.backbone.roll.scroll = task.index % self.num_subnets

    def losses(self, batch: Batch) -> Losses:
        losses = {}
        for width in range(1, self.num_subnets + 1):
            scores = self.net.classify(self.net.execute(partial(self.backbone.at_width, width=width), batch.inputs))
            losses[f"ce_{width}"] = self.classification(scores, batch.labels)
        if self.teacher and self.over == "lwf":
            old = self.teacher(batch.inputs)
            losses["kd"] = self.strength * distillation(scores[:, : self.task.num_old], old, self.temperature)
        return losses

    def classification(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Compute cross-entropy over all classes if there are images of old ones, and over the new ones otherwise.

        Args:
            scores: logits (B x C).
            labels: classes (B).
        """
        has_old = len(self.memory.samples) or len(self.task.extra)
        num_old = 0 if has_old else self.task.num_old
        return F.cross_entropy(scores[:, num_old:], labels - num_old)
