"""Requests of the page are checked before anything is done."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from upcl.model.server.studio_schemas import LabelRequest, NameRequest, StepRequest


def test_impossible_requests_are_refused() -> None:
    assert LabelRequest(digests=["0123456789abcdef"], name=None).name is None
    wrong: Any
    for wrong in ([], [7], "0123456789abcdef"):
        with pytest.raises(ValidationError):
            LabelRequest(digests=wrong, name="robin")
    with pytest.raises(ValidationError):
        NameRequest(name="x" * 201)
    with pytest.raises(ValidationError):
        StepRequest(step=-1)
