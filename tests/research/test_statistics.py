from __future__ import annotations

from typing import Any

import pytest

from tests.research.altered import alter, with_accuracy
from upcl.research.record import Record
from upcl.research.statistics import (
    class_orders_differ,
    differing_fields,
    estimate_mean,
    group_by_setting,
    group_runs,
    method_title,
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


def test_groups_are_named_by_what_distinguishes_them(record: Record) -> None:
    plain = with_seeds(record, {0: 1.0, 1: 1.0})
    other = alter(record, config={"options": {**record.config.options, "tau": 0.2}})
    assert {name: len(runs) for name, runs in group_runs(plain).items()} == {"UPCL": 2}
    assert {name: len(runs) for name, runs in group_runs([*plain, other]).items()} == {
        "UPCL (tau=0.07)": 2,
        "UPCL (tau=0.2)": 1,
    }


def test_option_that_only_some_runs_have_separates_groups(record: Record) -> None:
    other = alter(record, config={"options": {**record.config.options, "later": 1}})
    assert list(group_runs([record, other])) == ["UPCL (later=-)", "UPCL (later=1)"]


def test_groups_follow_the_order_of_the_registry(record: Record) -> None:
    methods = ("mine.py:Mine", "up+dm", "upcl", "icarl")
    groups = group_runs([alter(record, method=name) for name in methods])
    assert list(groups) == ["iCaRL", "UPCL", "+UP+DM (UPCL)", "mine.py:Mine"]


def test_titles_of_external_methods_are_their_names(record: Record) -> None:
    assert method_title(alter(record, method="mine.py:Mine")) == "mine.py:Mine"


def test_settings_are_data_and_tasks(record: Record) -> None:
    others = [alter(record, task_sizes=[6]), alter(record, task_sizes=[4, 2])]
    assert list(group_by_setting([record, *others])) == [
        "evil & co, 3 tasks",
        "evil & co, one task",
        "evil & co, tasks of 4, 2",
    ]


def test_differing_protocols_are_found(record: Record) -> None:
    assert differing_fields([record, alter(record, seed=3)]) == {}
    found = differing_fields([record, alter(record, config={"memory": "9", "select": "test"})])
    assert found == {"memory": ["12 in total", "9 in total"], "select": ["last", "test"]}


def test_recipe_of_later_tasks_counts(record: Record) -> None:
    recipes = record.config.recipes
    later = type(recipes)(recipes.first, recipes.later.scaled(5))
    assert differing_fields([record, alter(record, config={"recipes": later})])["epochs"] == ["2", "2 then 5"]


def test_differing_class_orders_are_found(record: Record) -> None:
    reordered = alter(record, order_seed=7)
    assert class_orders_differ({"a": [record], "b": [reordered]})
    assert not class_orders_differ({"a": [record, reordered], "b": [reordered, record]})
