"""ScrollNet (Yang et al., ICCVW 2023): sub-networks of a slimmable net share the learning; channels roll each task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from upcl.core.losses import distillation
from upcl.core.options import Natural, NonNegative, Positive, option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Task
from upcl.nets import LinearHead, Network, SlimmableBackbone
from upcl.nets.backbones import BACKBONES

from .base import Method

_RECIPE = Recipe(epochs=200, batch_size=64, milestones=(80, 120), momentum=0.0, weight_decay=0.0, clip=1e4)


@dataclass(kw_only=True, eq=False)
class ScrollNet(Method[LinearHead]):
    name = "scrollnet"
    title = "ScrollNet"
    paper = "ScrollNet: Dynamic Weight Importance for Continual Learning (ICCV workshop 2023)"
    summary = (
        "trains every width of a slimmable net and rolls its channels, so that each task leans on another sub-network"
    )
    deviations = (
        "on LwF with exemplars (the UPCL paper does not say on what); batch norms roll with their channels (in the "
        "official code they do not, and fit no longer); shortcuts are convolutions; no validation hold-out"
    )
    recipes = Recipes(first=_RECIPE, later=_RECIPE)

    over: Literal["lwf", "finetune"] = option("lwf", "with or without distillation at full width", "chosen here")
    num_subnets: Natural = option(4, "equal groups of channels", "official code")
    strength: NonNegative = option(1.0, "weight of the distillation", "official code")
    temperature: Positive = option(2.0, "temperature of the distillation", "official code")

    def make_net(self) -> Network[LinearHead]:
        shape = BACKBONES[self.setting.backbone]
        backbone = SlimmableBackbone(shape, self.setting.channels, self.num_subnets)
        return Network(backbone, LinearHead(backbone.dim))

    @property
    def backbone(self) -> SlimmableBackbone:
        assert isinstance(self.net.backbone, SlimmableBackbone)
        return self.net.backbone

    def begin(self, task: Task) -> None:
        """The teacher keeps the last task's scroll; the network moves on to this task's."""
        super().begin(task)
        self.backbone.roll.scroll = task.index % self.num_subnets

    def losses(self, batch: Batch) -> Losses:
        losses = {}
        for width in range(1, self.num_subnets + 1):
            scores = self.net.classify(self.backbone.at_width(batch.inputs, width))
            losses[f"ce_{width}"] = self.classification(scores, batch.labels)
        if self.teacher and self.over == "lwf":
            old = self.teacher(batch.inputs)
            losses["kd"] = self.strength * distillation(scores[:, : self.task.num_old], old, self.temperature)
        return losses

    def classification(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Over all classes with exemplars; without, over the new ones, as there is nothing to tell the old ones by."""
        num_old = self.task.num_old if not len(self.memory.samples) else 0
        return F.cross_entropy(scores[:, num_old:], labels - num_old)
