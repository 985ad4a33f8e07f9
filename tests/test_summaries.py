"""Means with their uncertainty, pairs, and what keeps runs from being compared."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from upcl.research.run import run
from upcl.research.statistics import by_line, disagreements, estimate, paired


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    return run("upcl", "synthetic:classes=4,train=8,test=4", tasks=2, epochs=1, memory="4")


def varied(record: dict[str, Any], seed: int, value: float, **config: Any) -> dict[str, Any]:
    made = copy.deepcopy(record)
    made["seed"], made["a_last"]["head"] = seed, value
    made["config"].update(config)
    return made


def test_the_interval_is_students() -> None:
    found = estimate([10.0, 12.0, 14.0])
    assert (found.mean, found.deviation, found.num) == (12.0, 2.0, 3)
    assert found.half_width == pytest.approx(4.30265 * 2 / 3**0.5, abs=1e-4)
    alone = estimate([7.0])
    assert (alone.mean, alone.deviation, alone.half_width) == (7.0, None, None)


def test_pairs_share_seed_and_order(record: dict[str, Any]) -> None:
    ours = [varied(record, seed, value) for seed, value in ((0, 50.0), (1, 60.0), (2, 70.0))]
    theirs = [varied(record, seed, value) for seed, value in ((2, 66.0), (0, 48.0), (9, 0.0))]
    found = paired(ours, theirs, "a_last", "head")
    assert found and found.difference.mean == 3.0 and found.difference.num == 2
    assert found.p_value == pytest.approx(0.2048, abs=1e-3)
    assert paired(ours, [varied(record, 7, 1.0)], "a_last", "head") is None
    equal = paired(ours, ours, "a_last", "head")
    assert equal and equal.difference.mean == 0 and equal.p_value is None
    other_order = [dict(varied(record, 0, 1.0), order_seed=5)]
    assert paired(ours, other_order, "a_last", "head") is None


def test_lines_say_what_distinguishes_them(record: dict[str, Any]) -> None:
    plain = [varied(record, seed, 1.0) for seed in (0, 1)]
    other = varied(record, 0, 1.0, options={**record["config"]["options"], "tau": 0.2})
    assert {name: len(runs) for name, runs in by_line(plain).items()} == {"UPCL": 2}
    assert {name: len(runs) for name, runs in by_line([*plain, other]).items()} == {
        "UPCL (tau=0.07)": 2,
        "UPCL (tau=0.2)": 1,
    }


def test_unequal_protocols_are_told(record: dict[str, Any]) -> None:
    assert disagreements([record, varied(record, 3, 1.0)]) == {}
    found = disagreements([record, varied(record, 0, 1.0, memory="9", select="test")])
    assert found == {"memory": ["4 in all", "9 in all"], "select": ["last", "test"]}
