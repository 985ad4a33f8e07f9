"""iCaRL."""

from __future__ import annotations

from tests.methods.scenarios import (
    GivenScores,
    batch_at,
    begun,
    first_task,
    on_fixture_a,
    second_task,
    total,
)
from tests.specification import X, Y, close
from upcl.methods.icarl import ICaRL


def test_loss_is_cross_entropy_plus_distillation() -> None:
    losses = on_fixture_a("icarl")
    assert close(losses["kd"], 0.655644)
    assert close(total(losses), 1.346375)


def test_there_is_no_distillation_in_the_first_task() -> None:
    method = first_task(second_task(ICaRL(), GivenScores(4)))
    assert set(method.losses(batch_at(X, Y))) == {"ce"}
    assert close(total(method.losses(batch_at(X, Y))), 0.690731)


def test_exemplars_are_replayed() -> None:
    method = begun(ICaRL)
    assert method.counts.tolist() == [4, 4, 6, 6], "a memory of 8 for two old classes, and all new images"
    assert method.teacher is not None and method.teacher.head.num_classes == 2
