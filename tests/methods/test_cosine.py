"""The cosine rows of the ablation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.methods.scenarios import (
    GivenTeacher,
    batch_at,
    begun,
    second_task,
    total,
)
from tests.specification import LABELS, RAW, RAW_TEACHER, close
from upcl.core.losses import cosine_distillation
from upcl.methods.cosine import Cosine
from upcl.nets import CosineHead

ROWS = torch.tensor([[1.0, 0.2, 0.0, 0.0], [0.0, 1.0, 0.3, 0.0], [0.1, 0.0, 1.0, 0.0], [0.0, 0.0, 0.2, 1.0]])


@pytest.mark.parametrize(("margin", "value"), [("none", 0.318017), ("fixed", 0.436928), ("prior", 0.505593)])
def test_values_of_the_specification(margin: Any, value: float) -> None:
    method = second_task(Cosine(margin=margin), CosineHead(4))
    head = method.net.head
    with torch.no_grad():
        head.old.copy_(ROWS[:2])
        head.new.copy_(ROWS[2:])
        head.sigma.fill_(4.0)
    method.teacher = GivenTeacher(torch.tensor(RAW_TEACHER))
    losses = method.losses(batch_at(torch.tensor(RAW), LABELS))
    assert close(losses["ce"] / 0.5, value)
    assert close(losses["fkd"] / 0.5, 0.010355), "-1.893856 would be a teacher that is not normalised"
    if margin == "none":
        assert close(total(losses), 0.164186)
    assert close(cosine_distillation(F.normalize(torch.tensor(RAW)), torch.tensor(RAW_TEACHER)), -1.893856)


def test_columns_act_on_logits() -> None:
    method = second_task(Cosine(margin="columns", margin_old=0.1, margin_size=2.0), CosineHead(4))
    with torch.no_grad():
        method.net.head.old.copy_(ROWS[:2])
        method.net.head.new.copy_(ROWS[2:])
        method.net.head.sigma.fill_(4.0)
    assert close(method.losses(batch_at(torch.tensor(RAW), LABELS))["ce"] / 0.5, 0.782150)


def test_new_rows_are_never_zero() -> None:
    assert float(begun(Cosine).net.head.vectors.detach().norm(dim=1).min()) > 0.1
