"""Recipes: schedules, batch sizes, scaling and overrides."""

from __future__ import annotations

import pytest
import torch

from upcl.core.errors import UserError
from upcl.core.recipes import RECIPES, Recipe, Recipes, override_recipes, split_recipe_options
from upcl.core.types import NO_SAMPLES, Task


def test_step_schedule_changes_the_rate_at_the_milestone_epoch() -> None:
    recipe = Recipe(epochs=5, lr=0.1, milestones=(3,))
    assert [round(recipe.learning_rate(e, 0, 10), 6) for e in range(5)] == [0.1, 0.1, 0.1, 0.01, 0.01]


def test_cosine_schedule_halves_the_rate_half_way() -> None:
    recipe = Recipe(epochs=50, lr=0.05, schedule="cosine")
    assert recipe.learning_rate(0, 0, 1) == pytest.approx(0.05)
    assert recipe.learning_rate(25, 0, 1) == pytest.approx(0.025)


def test_one_cycle_equals_torch() -> None:
    epochs, steps = 5, 7
    recipe = Recipe(epochs=epochs, lr=0.1, schedule="one-cycle")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=epochs * steps, cycle_momentum=False)
    for done in range(epochs * steps):
        assert recipe.learning_rate(done // steps, done % steps, steps) == pytest.approx(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()


def test_one_cycle_of_a_single_step_is_finite() -> None:
    assert Recipe(epochs=1, lr=0.1, schedule="one-cycle").learning_rate(0, 0, 1) == pytest.approx(0.004)


def test_few_images_make_smaller_batches() -> None:
    recipe = Recipe(batch_size=64, min_steps=20)
    assert [recipe.batch_size_for(num) for num in (10, 320, 1000, 1280, 50_000)] == [16, 16, 50, 64, 64]
    assert Recipe(batch_size=64).batch_size_for(10) == 64


def test_milestones_scale_with_the_epochs() -> None:
    recipes = Recipes(Recipe(epochs=200, milestones=(60, 120, 170)), Recipe(epochs=170, milestones=(80, 120, 150)))
    scaled = recipes.scaled(20)
    assert scaled.first.milestones == (6, 12, 17)
    assert (scaled.later.epochs, scaled.later.milestones) == (20, (9, 14, 18))


def test_only_the_first_task_has_the_first_recipe() -> None:
    recipes = Recipes(Recipe(epochs=2), Recipe(epochs=1))
    assert [recipes.of(Task(t, 2 * t, 2, NO_SAMPLES)).epochs for t in range(3)] == [2, 1, 1]


def test_the_paper_recipe_is_the_table_of_the_paper() -> None:
    paper = RECIPES["paper"]
    assert paper
    for recipe, epochs, milestones in ((paper.first, 200, (60, 120, 170)), (paper.later, 170, (80, 120, 150))):
        assert (recipe.epochs, recipe.milestones, recipe.batch_size) == (epochs, milestones, 256)
        assert (recipe.lr, recipe.momentum, recipe.weight_decay, recipe.gamma) == (0.1, 0.9, 2e-4, 0.1)


def test_options_of_recipes_are_split_off_by_their_prefix() -> None:
    parts = split_recipe_options({"tau": 1, "recipe.lr": 2, "first.lr": 3, "later.epochs": 4})
    assert parts == {"method": {"tau": 1}, "recipe": {"lr": 2}, "first": {"lr": 3}, "later": {"epochs": 4}}
    with pytest.raises(UserError, match="unknown option 'frist': did you mean first"):
        split_recipe_options({"frist.lr": 1})


def test_overrides_apply_in_order_of_precision() -> None:
    recipes = Recipes(Recipe(epochs=200, milestones=(100,)), Recipe(epochs=100, milestones=(50,)))
    options = {"recipe.lr": "0.2", "later.lr": 0.05, "later.epochs": 20, "first.milestones": "[3]"}
    changed = override_recipes(recipes, 10, split_recipe_options(options))
    assert (changed.first.epochs, changed.first.milestones, changed.first.lr) == (10, (3,), 0.2)
    assert (changed.later.epochs, changed.later.milestones, changed.later.lr) == (20, (10,), 0.05)
    assert override_recipes(recipes, None, split_recipe_options({})) == recipes


@pytest.mark.parametrize(
    ("options", "message"),
    [({"recipe.lrr": 1}, "did you mean lr"), ({"first.lr": -1}, "greater than 0"), ({"recipe.batch_size": 1}, "2")],
)
def test_wrong_overrides_are_errors(options: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        override_recipes(Recipes(Recipe(), Recipe()), None, split_recipe_options(options))
