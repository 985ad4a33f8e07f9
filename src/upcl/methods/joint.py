"""Joint (Oracle): all data of all classes at once. The upper bound."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F

from upcl.core.memory import Budget
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Task

from .base import LinearMethod

_RECIPE = Recipe(epochs=200, milestones=(60, 120, 170))


@dataclass(kw_only=True, eq=False)
class Joint(LinearMethod):
    name = "joint"
    title = "Joint (Oracle)"
    paper = "the field's upper bound"
    summary = "a memory that forgets nothing, and a fresh network for every task, trained on all classes seen"
    recipes = Recipes(first=_RECIPE, later=_RECIPE)
    uses_teacher = False

    def memory_budget(self) -> Budget:
        return Budget(0, "everything")

    def begin(self, task: Task) -> None:
        growth = self.net.growth
        self.net = self.fresh_net()
        self.net.regrow(growth)
        super().begin(task)

    def losses(self, batch: Batch) -> Losses:
        return {"ce": F.cross_entropy(self.net(batch.inputs), batch.labels)}
