"""ScrollNet."""

from __future__ import annotations

from torch import nn

from tests.methods.scenarios import (
    GivenScores,
    GivenTeacher,
    batch_at,
    begun,
    second_task,
    total,
)
from tests.specification import OLD, X, Y, close
from upcl.methods.scrollnet import ScrollNet


def test_loss_is_a_sum_over_widths() -> None:
    method = second_task(ScrollNet(num_subnets=2), GivenScores(4))
    backbone = type("Widths", (nn.Module,), {"at_width": lambda _, rows, width: rows if width == 2 else rows / 2})()
    method.net.backbone = backbone
    method.__class__ = type("Loose", (ScrollNet,), {"backbone": property(lambda self: self.net.backbone)})
    assert close(total(method.losses(batch_at(X, Y))), 1.657452)
    method.teacher = GivenTeacher(OLD)
    assert close(total(method.losses(batch_at(X, Y))), 2.313096)
    method.over = "finetune"
    assert close(total(method.losses(batch_at(X, Y))), 1.657452)
    method.memory = type("Stored", (), {"samples": ()})()
    alone = method.losses(batch_at(X[1:], Y[1:]))["ce_2"]
    assert close(alone, 0.300299), "without exemplars, only the new classes are separated"


def test_the_scroll_advances_and_the_teacher_keeps_its_own() -> None:
    method = begun(ScrollNet)
    assert method.backbone.roll.scroll == 1
    assert method.teacher.backbone.roll.scroll == 0
    state = method.net.state_dict()
    method.backbone.roll.scroll = 3
    method.net.load_state_dict(state)
    assert method.backbone.roll.scroll == 1, "the scroll is saved with the weights"
