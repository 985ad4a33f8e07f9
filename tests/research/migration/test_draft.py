from __future__ import annotations

from typing import Any

import pytest

from upcl.core.errors import UserError
from upcl.research.migration.draft import Draft
from upcl.research.migration.pycil import MODELS, PYCIL


def test_keys_that_the_file_lacks_get_no_verdict() -> None:
    draft = Draft({"seed": [1]}, PYCIL, MODELS["icarl"], "icarl")
    draft.judge("seed", "becomes", "x")
    draft.judge("device", "becomes", "x")
    assert list(draft.verdicts) == ["seed"]


@pytest.mark.parametrize("value", [True, "10", 1.5, 0, -1, None, [1]])
def test_whole_numbers(value: Any) -> None:
    with pytest.raises(UserError, match="'init_cls' must be a whole number from 1 on"):
        Draft({"init_cls": value}, PYCIL, MODELS["icarl"], "icarl").integer("init_cls", 1)
    assert Draft({"init_cls": 1}, PYCIL, MODELS["icarl"], "icarl").integer("init_cls", 1) == 1
