"""The manifest: limits that are checked before anything is built."""

from __future__ import annotations

import dataclasses

import pytest

from tests.model.feature_models import spec
from upcl.model.calibration import Calibration
from upcl.model.manifest import StoredSamples, StoredState, check_image_bytes, check_spec

SAMPLES = StoredSamples(images=["0" * 64] * 3, labels=[0] * 3)
STATE = StoredState("", (1,), ("cat",), SAMPLES, SAMPLES, "head", Calibration(1.0, 0.0, 0.0, 0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"channels": 2}, "2 channels"),
        ({"size": 4096}, "4096 pixels"),
        ({"std": (0.0, 1.0, 1.0)}, "standard deviation"),
        ({"mean": (0.5,)}, "mean"),
        ({"method": "file.py:Class"}, "not part of this package"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(change: dict[str, object], message: str) -> None:
    check_spec(spec())
    with pytest.raises(ValueError, match=message):
        check_spec(dataclasses.replace(spec(), **change))  # type: ignore[arg-type]


def test_images_that_would_fill_the_memory_are_refused() -> None:
    large = dataclasses.replace(spec(features=False), size=1024)
    check_image_bytes({0: STATE}, large)
    many = dataclasses.replace(STATE, exemplars=StoredSamples(["0" * 64] * 2000, [0] * 2000))
    with pytest.raises(ValueError, match="more than"):
        check_image_bytes({0: many}, large)
