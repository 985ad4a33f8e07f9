"""Joint (Oracle): all data of all classes at once. The upper bound."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F

from upcl.core.budget import Budget
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Task

from .base import LinearMethod

_RECIPE = Recipe(epochs=200, milestones=(60, 120, 170))


@dataclass(kw_only=True, eq=False)
class Joint(LinearMethod):
    """Joint training on all data seen so far, the upper bound of the field ("Oracle" in the UPCL paper).

    `L = CE(z, y)` over all classes seen, with a new network in every task; a frozen backbone stays.

    References:
        D.-W. Zhou, F.-Y. Wang, H.-J. Ye and D.-C. Zhan. PyCIL: A Python Toolbox for Class-Incremental Learning.
        SCIENCE CHINA Information Sciences, 2023.

    Example:
        >>> Joint().memory_budget().unit
        'everything'
    """

    name = "joint"
    title = "Joint (Oracle)"
    paper = "the field's upper bound"
    summary = "keeps every image, and trains a new network on all classes seen in every task"
    recipes = Recipes(first=_RECIPE, later=_RECIPE)
    uses_teacher = False

    def memory_budget(self) -> Budget:
        """Return a budget without limit."""
        return Budget(0, "everything")

    def begin(self, task: Task) -> None:
        growth, backbone = self.net.growth, self.net.backbone
        self.net = self.fresh_net()
        if not any(parameter.requires_grad for parameter in backbone.parameters()):
            self.net.backbone = backbone  # frozen: it keeps its weights
        self.net.regrow(growth)
        super().begin(task)

    def losses(self, batch: Batch) -> Losses:
        return {"ce": F.cross_entropy(self.net(batch.inputs), batch.labels)}
