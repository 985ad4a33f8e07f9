from __future__ import annotations

import pytest
import torch

from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Samples, Task


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


def test_samples_join_select_and_count() -> None:
    some = Samples(torch.zeros(3, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 2, 2]))
    none = Samples(torch.zeros(0, 1, 2, 2, dtype=torch.uint8), torch.zeros(0, dtype=torch.int64))
    assert (some + none) is some
    assert (none + some) is some
    assert len(some + some) == 6
    assert (some + some).counts(4).tolist() == [2, 0, 4, 0]
    assert some[torch.tensor([2, 0])].labels.tolist() == [2, 0]
    with pytest.raises(ValueError, match="3 inputs but 2 labels"):
        Samples(some.inputs, some.labels[:2])


def test_task_and_batch_know_where_they_stand() -> None:
    task = Task(1, 4, 2, Samples(torch.zeros(1, 1, 1, 1), torch.zeros(1)))
    assert task.num_seen == 6
    assert Batch(torch.zeros(1), torch.zeros(1), epoch=3, epochs=4, step=0, steps=1).progress == 0.75
