from __future__ import annotations

from typing import Any

import pytest

from tests.research.altered import alter, with_accuracy
from upcl.research.record import Record
from upcl.research.statistics import estimate_mean, paired_difference


@pytest.fixture
def record(records: list[Record]) -> Record:
    return records[2]


def with_seeds(record: Record, values: dict[int, float], **changes: Any) -> list[Record]:
    return [with_accuracy(record, value, seed=seed, **changes) for seed, value in values.items()]


def test_interval_is_students() -> None:
    found = estimate_mean([10.0, 12.0, 14.0])
    assert (found.mean, found.std, found.num) == (12.0, 2.0, 3)
    assert found.half_width == pytest.approx(4.30265 * 2 / 3**0.5, abs=1e-4)


def test_single_run_has_no_spread() -> None:
    found = estimate_mean([7.0])
    assert (found.mean, found.std, found.half_width, found.num) == (7.0, None, None, 1)


def test_pairs_share_seed_and_class_order(record: Record) -> None:
    runs = with_seeds(record, {0: 50.0, 1: 60.0, 2: 70.0})
    reference = with_seeds(record, {2: 66.0, 0: 48.0, 9: 0.0})
    found = paired_difference(runs, reference, "a_last", "head")
    assert found and found.difference.mean == 3.0 and found.difference.num == 2
    assert found.p_value == pytest.approx(0.2048, abs=1e-3)
    assert paired_difference(runs, with_seeds(record, {7: 1.0}), "a_last", "head") is None
    assert paired_difference(runs, with_seeds(record, {0: 1.0}, order_seed=5), "a_last", "head") is None
    reordered = with_seeds(record, {0: 1.0}, config={"order": (5, 4, 3, 2, 1, 0)})
    assert paired_difference(runs, reordered, "a_last", "head") is None


def test_equal_runs_have_no_p_value(record: Record) -> None:
    runs = with_seeds(record, {0: 50.0, 1: 60.0})
    found = paired_difference(runs, runs, "a_last", "head")
    assert found and found.difference.mean == 0 and found.p_value is None


def test_missing_readings_form_no_pair(record: Record) -> None:
    without = alter(record, a_last=record.a_last.model_copy(update={"nme": None}))
    assert paired_difference([record], [without], "a_last", "nme") is None
    assert paired_difference([record], [without], "a_last", "head") is not None
