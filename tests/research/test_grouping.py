from __future__ import annotations

import pytest

from tests.research.altered import alter
from upcl.research.grouping import class_orders_differ, differing_fields, group_by_setting, group_runs, method_title
from upcl.research.record import Record


@pytest.fixture
def record(records: list[Record]) -> Record:
    return records[2]


def test_groups_are_named_by_what_distinguishes_them(record: Record) -> None:
    plain = [record, alter(record, seed=1)]
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
