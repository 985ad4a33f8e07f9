"""Recipes: how a stage is optimised; those that apply to every method alike, by name; and overrides by options."""

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
Augment = Literal["standard", "trivial"]
SMALLEST_BATCH = 16  # that `min_steps` leads to
ONE_CYCLE_RISE = 0.3  # share of the steps in which the rate rises
ONE_CYCLE_START = 1 / 25  # of the maximum rate
ONE_CYCLE_END = 1e-4 / 25


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How one stage is optimised: SGD with a learning rate that is a pure function of the step.

    The schedule has no state to save, so a resumed run continues with exactly the same rates.

    Example:
        >>> recipe = Recipe(epochs=100, lr=0.1, milestones=(60, 80))
        >>> round(recipe.learning_rate(epoch=60, step=0, steps=10), 6)
        0.01
    """

    epochs: Natural = option(170, "passes over the stage's data")
    batch_size: Annotated[int, Ge(2)] = option(128, "images per step; the last batch of an epoch may be smaller")
    min_steps: Count = option(
        0, "minimum number of steps per epoch: small data sets get smaller batches, down to 16; 0: no minimum"
    )
    lr: Positive = option(0.1, "learning rate (the maximum, for 'one-cycle')")
    momentum: Fraction = option(0.9, "momentum of SGD")
    weight_decay: NonNegative = option(5e-4, "L2 penalty on all trained parameters")
    schedule: Schedule = option("step", "'step' at the milestones, 'cosine' per epoch, or 'one-cycle' per step")
    milestones: tuple[int, ...] = option((), "epoch indices at which 'step' multiplies the rate by gamma")
    gamma: Positive = option(0.1, "factor applied at each milestone")
    clip: NonNegative = option(0.0, "maximum norm of the gradient; 0: no limit")
    augment: Augment = option(
        "standard", "'standard': the data set's augmentations; 'trivial': and one random operation per image"
    )
    erase: Fraction = option(0.0, "probability that a random rectangle of an image is erased")
    ema: Fraction = option(0.0, "decay of a moving average of the weights, which the stage ends with; 0: none")
    pull: Fraction = option(0.0, "share of the backbone's weights from before the stage, blended in at its end")
    balanced_norm: bool = option(
        False, "re-estimate batch-norm statistics on class-balanced batches at the end of the stage"
    )

    def scaled(self, epochs: int) -> Recipe:
        """Return the same recipe for another number of epochs; milestones move in proportion.

        Args:
            epochs: the new number of epochs.

        Example:
            >>> Recipe(epochs=200, milestones=(60, 120)).scaled(10).milestones
            (3, 6)
        """
        milestones = tuple(max(1, round(m * epochs / self.epochs)) for m in self.milestones)
        return dataclasses.replace(self, epochs=epochs, milestones=milestones)

    def batch_size_for(self, num: int) -> int:
        """Return the batch size of a stage, which `min_steps` may reduce.

        Args:
            num: number of samples of the stage.

        Example:
            >>> Recipe(batch_size=128, min_steps=20).batch_size_for(1000)
            50
        """
        if not self.min_steps:
            return self.batch_size
        return min(self.batch_size, max(SMALLEST_BATCH, num // self.min_steps))

    def learning_rate(self, epoch: int, step: int, steps: int) -> float:
        """Return the learning rate of one step.

        Args:
            epoch: index of the epoch.
            step: index of the step within the epoch.
            steps: number of steps per epoch.
        """
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
    """The recipe of the first task and the recipe of all later tasks.

    Args:
        first: for the first task.
        later: for the other tasks.

    Example:
        >>> recipes = Recipes(first=Recipe(epochs=200), later=Recipe(epochs=170))
        >>> recipes.scaled(5).later.epochs
        5
    """

    first: Recipe
    later: Recipe

    def scaled(self, epochs: int) -> Recipes:
        """Scale both recipes to another number of epochs.

        Args:
            epochs: the new number of epochs.
        """
        return Recipes(self.first.scaled(epochs), self.later.scaled(epochs))

    def of(self, task: Task) -> Recipe:
        """Return the recipe of a task.

        Args:
            task: the task to train.
        """
        return self.first if task.index == 0 else self.later


_QUICK = Recipe(epochs=15, batch_size=64, min_steps=20, lr=0.05, schedule="one-cycle", weight_decay=5e-4)
RECIPES: dict[str, Recipes | None] = {
    "own": None,
    "paper": Recipes(  # the paper's table of hyper-parameters, the same for all methods
        first=Recipe(epochs=200, batch_size=256, milestones=(60, 120, 170), weight_decay=2e-4),
        later=Recipe(epochs=170, batch_size=256, milestones=(80, 120, 150), weight_decay=2e-4),
    ),
    "quick": Recipes(first=_QUICK, later=_QUICK),
}
"""Recipes by name. `own` stands for the recipes that each method defines itself."""

FAST_RECIPES = ("quick",)
"""Recipes made for speed rather than for the reproduction of published figures."""

_PARTS = ("recipe", "first", "later")


def split_recipe_options(options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Separate recipe fields from the options of a method.

    Args:
        options: options by key. `first.lr` and `later.lr` set a field of one recipe, `recipe.lr` of both; a key
            without a dot is an option of the method.

    Returns:
        The options by part, `recipe`, `first`, `later` and `method`, each by name without the prefix.

    Raises:
        UserError: If a key has another prefix.

    Example:
        >>> parts = split_recipe_options({"tau": 0.1, "recipe.lr": 0.05, "first.epochs": 10})
        >>> parts["method"], parts["recipe"], parts["first"], parts["later"]
        ({'tau': 0.1}, {'lr': 0.05}, {'epochs': 10}, {})
    """
    parts: dict[str, dict[str, Any]] = {"recipe": {}, "first": {}, "later": {}, "method": {}}
    for key, value in options.items():
        part, dot, name = key.partition(".")
        if dot and part not in _PARTS:
            raise unknown_choice("option", part, _PARTS)
        parts[part if dot else "method"][name if dot else key] = value
    return parts


def override_recipes(recipes: Recipes, epochs: int | None, options: Mapping[str, Mapping[str, Any]]) -> Recipes:
    """Apply a number of epochs and recipe options to recipes.

    Args:
        recipes: the recipes to start from.
        epochs: scale both recipes to this number of epochs first; None keeps theirs.
        options: fields by part, as `split_recipe_options` returns them. `first` and `later` override `recipe`;
            `epochs` among them scales the milestones too.

    Returns:
        The new recipes.

    Raises:
        UserError: If a field is unknown or a value does not fit.

    Example:
        >>> recipes = Recipes(Recipe(), Recipe())
        >>> changed = override_recipes(recipes, 10, split_recipe_options({"recipe.lr": 0.2, "later.lr": 0.05}))
        >>> changed.first.lr, changed.later.lr, changed.later.epochs
        (0.2, 0.05, 10)
    """
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
