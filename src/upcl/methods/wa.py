"""WA (Zhao et al., CVPR 2020): after each task, the weights of new classes are scaled to the norm of the old ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from upcl.core.options import option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Stage, Task
from upcl.nets import LinearHead, Network

from .distillation import ShareWeightedMethod


@dataclass(kw_only=True, eq=False)
class WA(ShareWeightedMethod[LinearHead]):
    """Weight Aligning, in PyCIL's form.

    `L = (1 - l) CE(z, y) + l KD_2(z_old, q)` with `l = C_old / C`. After training, the new rows of the head are
    multiplied by (mean norm of old rows) / (mean norm of new rows).

    References:
        B. Zhao, X. Xiao, G. Gan, B. Zhang and S.-T. Xia. Maintaining Discrimination and Fairness in Class Incremental
        Learning. CVPR 2020.

    Example:
        >>> WA(clip_weights=True).temperature
        2.0
    """

    name = "wa"
    title = "WA"
    paper = "Maintaining Discrimination and Fairness in Class Incremental Learning (CVPR 2020); PyCIL's form"
    summary = "iCaRL weighted by the share of old classes, with new rows of the head scaled to the norm of old rows"
    deviations = "the bias is not aligned; weights are not clipped by default (clip_weights does)"
    recipes = Recipes(
        first=Recipe(epochs=200, milestones=(60, 120, 170)),
        later=Recipe(epochs=170, milestones=(60, 100, 140), weight_decay=2e-4),
    )

    clip_weights: bool = option(
        False, "clip the head's weights at zero from below after every step", "PyCIL; the paper clips"
    )

    def make_net(self) -> Network[LinearHead]:
        return self.network_with(LinearHead)

    def learn(self, task: Task) -> Iterator[Stage]:
        self.begin(task)
        yield dataclasses.replace(self.stage(), after_step=self.clip if self.clip_weights else None)
        self.net.head.align(task.num_old)
        self.remember()

    @torch.no_grad()
    def clip(self) -> None:
        """Clip the head's weights at zero from below."""
        self.net.head.weight.clamp_(min=0)
