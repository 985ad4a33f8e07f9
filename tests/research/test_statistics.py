from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import gamma

from tests.research.altered import alter, with_accuracy
from upcl.research.record import ByReading, Record
from upcl.research.statistics import (
    estimate_mean,
    evaluate_differences,
    holm,
    intransigence_values,
    metric_value,
    paired_difference,
)


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


@pytest.mark.parametrize("num", [2, 3, 5, 6, 12])
def test_tests_of_differences_equal_those_of_scipy(num: int) -> None:
    draw = np.random.default_rng(num)
    a, b = draw.normal(50, 2, num), draw.normal(48, 2, num)
    found = evaluate_differences((a - b).tolist())
    expected = stats.ttest_rel(a, b)
    interval = expected.confidence_interval(0.95)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.difference.half_width is not None
    mean, half = found.difference.mean, found.difference.half_width
    assert (mean - half, mean + half) == pytest.approx((interval.low, interval.high))
    assert found.rank_p_value == (pytest.approx(stats.wilcoxon(a, b).pvalue) if num >= 6 else None)
    if num > 2:
        m = num - 1
        factor = gamma(m / 2) / (math.sqrt(m / 2) * gamma((m - 1) / 2))
        assert found.effect_size == pytest.approx(factor * np.mean(a - b) / np.std(a - b, ddof=1))
        assert factor == pytest.approx(1 - 3 / (4 * m - 1), abs=0.03), "Hedges' approximation"
    else:
        assert found.effect_size is None, "the correction of two pairs is zero"


def test_effect_size_is_unbiased() -> None:
    draw = np.random.default_rng(0).normal(0.8, 1.0, (4000, 5))
    sizes = [evaluate_differences(row.tolist()).effect_size or 0.0 for row in draw]
    assert np.mean(sizes) == pytest.approx(0.8, abs=0.03)


def test_differences_that_are_equal_but_for_rounding_are_not_tested() -> None:
    found = evaluate_differences([0.3 - 0.1, 0.2, 0.5 - 0.3])
    assert found.p_value is None and found.effect_size is None and found.difference.mean == pytest.approx(0.2)
    assert evaluate_differences([0.0, 0.0]).p_value is None
    assert evaluate_differences([0.0] * 8).rank_p_value is None


def naive_holm(values: list[float]) -> list[float]:
    """The largest correction among the hypotheses that are rejected no later."""
    corrected = []
    for value in values:
        no_later = sorted(v for v in values if v <= value)
        corrected.append(min(1.0, max(v * (len(values) - k) for k, v in enumerate(no_later))))
    return corrected


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8, unique=True))
def test_holm_equals_a_naive_loop(values: list[float]) -> None:
    assert holm(list(values)) == pytest.approx(naive_holm(values))


def test_holm_leaves_out_what_was_not_tested() -> None:
    assert holm([None, 0.04, None]) == [None, 0.04, None]
    assert holm([]) == []
    assert holm([0.5, 0.5, 0.01]) == [1.0, 1.0, 0.03]


def test_intransigence_is_against_joint_training_of_the_same_order(records: list[Record]) -> None:
    icarl = records[0]
    best = ByReading[list[list[float]]](head=[[90.0], [0.0, 80.0], [0.0, 0.0, 100.0]], nme=None)
    joint = alter(icarl, method="joint", top1_matrix=best, config={"memory": "99"})
    learned = [icarl.top1_matrix.head[j][j] for j in range(3)]
    assert intransigence_values([icarl], [joint], "head") == [pytest.approx((270 - sum(learned)) / 3)]
    assert intransigence_values([icarl], [alter(joint, seed=5)], "head") == []
    assert intransigence_values([icarl], [alter(joint, config={"backbone": "medium"})], "head") == []
    assert intransigence_values([joint], [joint], "head") == []
    assert intransigence_values([icarl], records, "head") == []


def test_backward_transfer_is_a_metric(records: list[Record]) -> None:
    assert metric_value(records[0], "backward_transfer", "nme") == records[0].backward_transfer.nme
