"""MEMO (Zhou et al., ICLR 2023): every task adds a copy of the backbone's last stage; the stages before are shared."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from upcl.core.errors import UserError
from upcl.core.options import option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Stage, Task
from upcl.nets import make_backbone
from upcl.nets.expandable import ParallelBackbone
from upcl.nets.extractors import StagedExtractor

from .expanding import ExpandingMethod


@dataclass(kw_only=True, eq=False)
class MEMO(ExpandingMethod):
    """Memory-efficient expandable model.

    `L = CE(z, y) + lambda_a CE(a, y')`, as in DER: z are scores from the features of all last stages, a scores from
    the newest one alone, and y' is 0 for every old class. After training, the new rows of the head are scaled to the
    norm of the old ones.

    References:
        D.-W. Zhou, Q.-W. Wang, H.-J. Ye and D.-C. Zhan. A Model or 603 Exemplars: Towards Memory-Efficient
        Class-Incremental Learning. ICLR 2023.

    Example:
        >>> MEMO(train_shared=False).auxiliary
        1.0
    """

    name = "memo"
    title = "MEMO"
    paper = "A Model or 603 Exemplars: Towards Memory-Efficient Class-Incremental Learning (ICLR 2023)"
    summary = "adds a copy of the backbone's last stage with every task, and shares the stages before"
    deviations = (
        "the memory saved on parameters is not spent on exemplars automatically; the rows of the head are aligned, its "
        "bias is not (as in the official code)"
    )
    recipes = Recipes(
        first=Recipe(epochs=200, milestones=(60, 120, 170)),
        later=Recipe(epochs=170, milestones=(80, 120, 150), weight_decay=2e-4),
    )

    train_shared: bool = option(True, "train the shared stages after the first task too", "official code")
    align: bool = option(True, "scale the new rows of the head to the norm of the old ones", "official code")

    def make_branches(self) -> ParallelBackbone:
        backbone = make_backbone(self.setting.backbone, self.setting.channels)
        if not isinstance(backbone, StagedExtractor):
            raise UserError(
                f"MEMO copies the last stage of a backbone, and '{self.setting.backbone}' cannot be divided there: use "
                "small, medium, pooled, resnet32 or resnet18"
            )
        shared, last = backbone.divide()
        return ParallelBackbone(last, shared)

    def learn(self, task: Task) -> Iterator[Stage]:
        self.begin(task)
        yield self.stage()
        if self.align:
            self.net.head.align(task.num_old)
        self.remember()

    def stage(self) -> Stage:
        """Return the main stage: earlier last stages stay as they are, and on request the shared ones too."""
        stage, shared = super().stage(), self.net.backbone.shared
        if self.train_shared or self.task.index == 0:
            return stage
        fixed = {id(p) for p in shared.parameters()}
        params = [p for p in stage.params if id(p) not in fixed]
        return dataclasses.replace(stage, params=params, frozen=[*stage.frozen, shared])
