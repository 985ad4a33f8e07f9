"""Finetune: the lower bound."""

from __future__ import annotations

import pytest

from tests.methods.scenarios import (
    GivenScores,
    batch_at,
    begun,
    built,
    on_fixture_a,
    second_task,
    small_data,
    split_tasks,
    total,
    train,
)
from tests.specification import X, Y, close
from upcl.core.errors import UserError
from upcl.core.types import Task
from upcl.methods.finetune import Finetune


def test_loss_is_cross_entropy_over_new_classes() -> None:
    method = second_task(Finetune(), GivenScores(4))
    assert close(total(method.losses(batch_at(X[1:], Y[1:]))), 0.300299)
    assert close(total(on_fixture_a("finetune", full_ce=True)), 0.690731)


def test_nothing_is_kept_of_the_past() -> None:
    method = begun(Finetune)
    assert method.teacher is None
    assert len(method.memory.samples) == 0
    assert len(method.data) == len(method.task.train)


def test_extra_images_of_known_classes_are_refused() -> None:
    data = small_data()
    method = built(Finetune, data)
    first, second = split_tasks(data, [2, 2])
    train(method, first)
    with pytest.raises(UserError, match="Finetune keeps no exemplars, so it cannot learn more images of known classes"):
        method.begin(Task(1, 2, 2, second.train, extra=first.train[:2]))
    assert method.net.head.num_classes == 2, "the network has not grown"
