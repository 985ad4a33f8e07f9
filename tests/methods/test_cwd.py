"""CwD."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.methods.scenarios import (
    GivenTeacher,
    batch_at,
    first_task,
    second_task,
)
from tests.specification import close
from upcl.methods.cwd import CwD
from upcl.nets import CosineHead

CWD_ROWS = [[1.0, 2.0, 0.5], [0.5, 1.0, 1.5], [2.0, 0.1, 0.3], [0.2, 0.9, 0.4], [0.7, 0.3, 1.1]]


@pytest.mark.parametrize(("form", "value"), [("code", 0.530136), ("paper", 0.804223)])
def test_features_are_decorrelated_in_the_first_task_only(form: Any, value: float) -> None:
    method = first_task(second_task(CwD(form=form), CosineHead(3)))
    rows, labels = torch.tensor(CWD_ROWS), torch.tensor([0, 0, 0, 1, 1])
    losses = method.losses(batch_at(rows, labels))
    assert close(losses["cwd"] / 0.5, value)
    later = second_task(CwD(), CosineHead(3))
    later.teacher = GivenTeacher(rows)
    assert set(later.losses(batch_at(rows, labels))) == {"ce", "forget", "rank"}
