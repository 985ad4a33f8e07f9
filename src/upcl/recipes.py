"""Recipes by name that hold for every method alike. `own` is what each method brings."""

from __future__ import annotations

from .core import Recipe, Recipes

_QUICK = Recipe(epochs=15, batch_size=64, min_steps=20, lr=0.05, schedule="one-cycle", weight_decay=5e-4)

RECIPES: dict[str, Recipes | None] = {
    "own": None,
    "paper": Recipes(  # the paper's one table of hyper-parameters
        first=Recipe(epochs=200, batch_size=256, milestones=(60, 120, 170), weight_decay=2e-4),
        later=Recipe(epochs=170, batch_size=256, milestones=(80, 120, 150), weight_decay=2e-4),
    ),
    "quick": Recipes(first=_QUICK, later=_QUICK),
}
