from __future__ import annotations

import dataclasses

import pytest

from tests.research.altered import alter
from upcl.research.paper.experiments import Contribution
from upcl.research.record import Record
from upcl.research.report.comparisons import contribution_table, paired_table


def accuracies(records: list[Record]) -> dict[tuple[str, int], float]:
    return {(record.method, record.seed): record.a_last.head for record in records}


def test_differences_are_against_upcl_on_the_same_seeds(records: list[Record]) -> None:
    table = paired_table(records)
    assert table
    by = accuracies(records)
    (row,) = table.rows
    assert row[1].value == pytest.approx(sum(by["icarl", seed] - by["upcl", seed] for seed in (0, 1)) / 2)
    assert [cell.text for cell in row[-2:]] == ["UPCL", "2"]


def test_single_configuration_has_nothing_to_compare(records: list[Record]) -> None:
    assert paired_table(records[:2]) is None


def test_runs_under_other_conditions_are_not_compared(records: list[Record]) -> None:
    table = paired_table([alter(records[0], config={"memory": "6"}), *records[1:]])
    assert table and [row[0].text for row in table.rows] == ["iCaRL (memory=12 in total)"]


def test_other_recipes_are_compared_and_noted(records: list[Record]) -> None:
    recipes = records[2].config.recipes
    faster = type(recipes)(*(dataclasses.replace(each, lr=9.0) for each in (recipes.first, recipes.later)))
    table = paired_table([*records[:2], *(alter(record, config={"recipes": faster}) for record in records[2:])])
    assert table and len(table.rows) == 1
    assert "another recipe" in table.notes[1] and "iCaRL" in table.notes[1]


def test_without_upcl_differences_are_against_the_first_method(records: list[Record]) -> None:
    table = paired_table([*records[:2], *(alter(record, method="wa") for record in records[2:])])
    assert table and [(row[0].text, row[-2].text) for row in table.rows] == [("WA", "iCaRL")]


def test_upcl_with_other_options_is_not_the_reference(records: list[Record]) -> None:
    options = {**records[2].config.options, "tau": 0.5}
    table = paired_table([records[0], *(alter(record, config={"options": options}) for record in records[2:])])
    assert table and [(row[0].text, row[-2].text) for row in table.rows] == [("UPCL", "iCaRL")]


def test_contribution_of_a_component_is_paired(records: list[Record]) -> None:
    contributions = [Contribution("everything", "icarl", "upcl"), Contribution("not run", "wa", "upcl")]
    table = contribution_table(records, contributions)
    by = accuracies(records)
    (row,) = table.rows
    assert (row[0].text, row[1].text) == ("everything", "iCaRL to UPCL")
    assert row[2].value == pytest.approx(sum(by["upcl", seed] - by["icarl", seed] for seed in (0, 1)) / 2)
