"""LwF."""

from __future__ import annotations

import pytest

from tests.methods.scenarios import (
    GivenScores,
    GivenTeacher,
    batch_at,
    built,
    second_task,
    small_data,
    split_tasks,
    total,
    train,
)
from tests.specification import OLD, X, Y, close
from upcl.core.errors import UserError
from upcl.core.types import Task
from upcl.methods.lwf import LwF


def test_loss_is_cross_entropy_over_new_classes_plus_weighted_distillation() -> None:
    method = second_task(LwF(), GivenScores(4))
    method.teacher = GivenTeacher(OLD[1:])
    losses = method.losses(batch_at(X[1:], Y[1:]))
    assert close(losses["ce"], 0.300299)
    assert close(total(losses), 2.284526)
    assert not LwF.uses_memory


def test_extra_images_of_known_classes_are_refused() -> None:
    data = small_data()
    method = built(LwF, data)
    first, second = split_tasks(data, [2, 2])
    train(method, first)
    with pytest.raises(UserError, match="LwF keeps no exemplars, so it cannot learn more images of known classes"):
        method.begin(Task(1, 2, 2, second.train, extra=first.train[:2]))
    assert method.net.head.num_classes == 2, "the network has not grown"
