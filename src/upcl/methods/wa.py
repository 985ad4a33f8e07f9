"""WA (Zhao et al., CVPR 2020): after each task the new classes' weights are brought to the old ones' length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from upcl.core.options import option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Stage, Task
from upcl.nets import LinearHead, Network

from .distillation import DistillationMethod


@dataclass(kw_only=True, eq=False)
class WA(DistillationMethod[LinearHead]):
    name = "wa"
    title = "WA"
    paper = "Maintaining Discrimination and Fairness in Class Incremental Learning (CVPR 2020); PyCIL's form"
    summary = (
        "iCaRL with weights by the share of old classes, and new rows of the head rescaled to the old ones' mean norm"
    )
    deviations = "the bias is left alone; weights are not clipped (a field can)"
    recipes = Recipes(
        first=Recipe(epochs=200, milestones=(60, 120, 170)),
        later=Recipe(epochs=170, milestones=(60, 100, 140), weight_decay=2e-4),
    )

    clip_weights: bool = option(
        False, "keep the head's weights at or above zero, step by step", "PyCIL; the paper clips"
    )

    def make_net(self) -> Network[LinearHead]:
        return self.build(LinearHead)

    def weights(self) -> tuple[float, float]:
        return 1 - self.old_share, self.old_share

    def learn(self, task: Task) -> Iterator[Stage]:
        self.begin(task)
        yield self.stage()
        self.clip()
        self.align()
        self.remember()

    def losses(self, batch: Batch) -> Losses:
        self.clip()
        return super().losses(batch)

    @torch.no_grad()
    def clip(self) -> None:
        """After a step (that is, before the next), where asked for."""
        if self.clip_weights:
            self.net.head.weight.clamp_(min=0)

    @torch.no_grad()
    def align(self) -> None:
        """Multiply the new rows by (mean norm of old rows) / (mean norm of new rows)."""
        if self.task.num_old:
            norms = self.net.head.weight.norm(dim=1)
            ratio = norms[: self.task.num_old].mean() / norms[self.task.num_old :].mean().clamp(min=1e-12)
            self.net.head.weight[self.task.num_old :] *= ratio
