"""Recipes by name that hold for every method alike. `own` is what each method brings."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge

from .errors import unknown_choice
from .options import Count, Fraction, Natural, NonNegative, Positive, check_values, option

if TYPE_CHECKING:
    from .types import Task
Schedule = Literal["step", "cosine", "one-cycle"]
SMALLEST_BATCH = 16  # that `min_steps` may ask for
ONE_CYCLE_RISE = 0.3  # share of the steps that the rate rises for
ONE_CYCLE_START = 1 / 25  # of the top rate
ONE_CYCLE_END = 1e-4 / 25


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How one stage is optimised: SGD with a rate that is a pure function of the step, so it has no state to save."""

    epochs: Natural = option(170, "passes over the stage's data")
    batch_size: Annotated[int, Ge(2)] = option(128, "images a step; the last batch may be smaller")
    min_steps: Count = option(0, "steps an epoch, at least: few images make smaller batches, down to 16; 0: no rule")
    lr: Positive = option(0.1, "learning rate (its top, for one-cycle)")
    momentum: Fraction = option(0.9, "momentum of SGD")
    weight_decay: NonNegative = option(5e-4, "L2 penalty on all trained parameters")
    schedule: Schedule = option("step", "'step' at the milestones, 'cosine' by epoch, or 'one-cycle' by step")
    milestones: tuple[int, ...] = option((), "epoch indices at which 'step' multiplies the rate by gamma")
    gamma: Positive = option(0.1, "factor of each milestone")
    clip: NonNegative = option(0.0, "largest norm of the gradient; 0: no limit")

    def scaled(self, epochs: int) -> Recipe:
        """The same course in another number of epochs: milestones move in proportion."""
        milestones = tuple(max(1, round(m * epochs / self.epochs)) for m in self.milestones)
        return dataclasses.replace(self, epochs=epochs, milestones=milestones)

    def batch_size_for(self, num: int) -> int:
        """Images a step of a stage with `num` images."""
        if not self.min_steps:
            return self.batch_size
        return min(self.batch_size, max(SMALLEST_BATCH, num // self.min_steps))

    def learning_rate(self, epoch: int, step: int, steps: int) -> float:
        """Learning rate of step `step` of `steps` in epoch `epoch`."""
        if self.schedule == "step":
            return self.lr * self.gamma ** sum(epoch >= m for m in self.milestones)
        if self.schedule == "cosine":
            return self.lr * _cosine(1.0, 0.0, epoch / self.epochs)
        done, last = epoch * steps + step, self.epochs * steps - 1
        top = max(ONE_CYCLE_RISE * (last + 1) - 1, 1e-9)
        if done <= top:
            return self.lr * _cosine(ONE_CYCLE_START, 1.0, done / top)
        return self.lr * _cosine(1.0, ONE_CYCLE_END, (done - top) / (last - top))


def _cosine(start: float, end: float, progress: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * progress)) / 2


@dataclass(frozen=True)
class Recipes:
    """A recipe for the first task and one for the later ones."""

    first: Recipe
    later: Recipe

    def scaled(self, epochs: int) -> Recipes:
        return Recipes(self.first.scaled(epochs), self.later.scaled(epochs))

    def of(self, task: Task) -> Recipe:
        return self.first if task.index == 0 else self.later


_QUICK = Recipe(epochs=15, batch_size=64, min_steps=20, lr=0.05, schedule="one-cycle", weight_decay=5e-4)
RECIPES: dict[str, Recipes | None] = {
    "own": None,
    "paper": Recipes(  # the paper's one table of hyper-parameters
        first=Recipe(epochs=200, batch_size=256, milestones=(60, 120, 170), weight_decay=2e-4),
        later=Recipe(epochs=170, batch_size=256, milestones=(80, 120, 150), weight_decay=2e-4),
    ),
    "quick": Recipes(first=_QUICK, later=_QUICK),
}


def split_recipe_options(options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """`recipe.lr`, `first.lr` and `later.lr` apart from the fields of the method."""
    parts: dict[str, dict[str, Any]] = {"recipe": {}, "first": {}, "later": {}, "method": {}}
    for key, value in options.items():
        part, dot, name = key.partition(".")
        if dot and part not in ("recipe", "first", "later"):
            raise unknown_choice("option", part, ["recipe", "first", "later"])
        parts[part if dot else "method"][name if dot else key] = value
    return parts


def override_recipes(recipes: Recipes, epochs: int | None, options: Mapping[str, Mapping[str, Any]]) -> Recipes:
    """Recipes in another number of epochs, and with the fields that were split off the options."""
    if epochs is not None:
        recipes = recipes.scaled(epochs)
    both = check_values(Recipe, options["recipe"], "recipe field")
    changed = []
    for part, recipe in (("first", recipes.first), ("later", recipes.later)):
        changes = {**both, **check_values(Recipe, options[part], "recipe field")}
        if "epochs" in changes:
            recipe = recipe.scaled(changes["epochs"])
        changed.append(dataclasses.replace(recipe, **changes))
    return Recipes(*changed)
