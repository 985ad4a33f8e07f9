"""The manifest: limits that are checked before anything is built."""

from __future__ import annotations

import dataclasses

import pytest

from tests.model.feature_models import spec
from upcl.model.manifest import MAX_BYTES, MIN_DECODED, check_sample_bytes, check_spec, parse_manifest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"channels": 2}, "2 channels"),
        ({"size": 4096}, "4096 pixels"),
        ({"std": (0.0, 1.0, 1.0)}, "standard deviation"),
        ({"mean": (0.5,)}, "mean"),
        ({"mean": (0.5, 0.5, 1e30)}, "mean"),
        ({"method": "file.py:Class"}, "not part of this package"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(change: dict[str, object], message: str) -> None:
    check_spec(spec())
    with pytest.raises(ValueError, match=message):
        check_spec(dataclasses.replace(spec(), **change))  # type: ignore[arg-type]


def test_samples_are_bounded_by_the_size_of_the_file_and_by_a_limit() -> None:
    check_sample_bytes(MIN_DECODED, file_bytes=1)
    check_sample_bytes(MAX_BYTES, file_bytes=MAX_BYTES)
    for num_bytes, file_bytes in ((MIN_DECODED + 1, 1), (MAX_BYTES + 1, MAX_BYTES)):
        with pytest.raises(ValueError, match="more than"):
            check_sample_bytes(num_bytes, file_bytes)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400"])
def test_numbers_of_a_manifest_are_finite(number: str) -> None:
    assert parse_manifest(b'{"a": [1, 2.5, -1e300]}') == {"a": [1, 2.5, -1e300]}
    with pytest.raises(ValueError, match=f"not finite: {number}"):
        parse_manifest(f'{{"a": [{number}]}}'.encode())
