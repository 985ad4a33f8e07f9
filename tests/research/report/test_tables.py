from __future__ import annotations

import pytest

from tests.research.altered import alter, with_accuracy
from upcl.research.paper.experiments import PublishedReference
from upcl.research.record import Record
from upcl.research.report.tables import Cell, last_mean, results_table, size_cell


def test_cells_show_mean_standard_deviation_and_interval(records: list[Record]) -> None:
    table = results_table("x", records)
    values = [record.a_last.head for record in records if record.method == "upcl"]
    cell = table.rows[1][1]
    mean, std = sum(values) / 2, abs(values[0] - values[1]) / 2**0.5
    assert cell.value == pytest.approx(mean)
    assert cell.text == f"{mean:.1f} ± {std:.1f}"
    half_width = 12.7062 * std / 2**0.5
    assert (cell.low, cell.high) == pytest.approx((mean - half_width, mean + half_width), abs=0.01)
    assert cell.interval == f"{cell.low:.1f} to {cell.high:.1f}"
    assert "95 %" in table.notes[0]


def test_columns_are_metrics_by_each_reading(records: list[Record]) -> None:
    metrics = [f"{metric} {name}" for metric in ("A_last", "A_avg", "forgetting") for name in ("head", "nme", "both")]
    costs = ("parameters (M)", "memory (MB)")
    assert results_table("x", records).columns == ("method", *metrics, *costs, "runs", "seconds")
    earlier = [alter(record, parameters=None, total_bytes=None) for record in records]
    assert results_table("x", earlier).columns == ("method", *metrics, "runs", "seconds")


def test_costs_are_those_after_the_last_task(records: list[Record]) -> None:
    table = results_table("x", records)
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert records[0].parameters and records[0].total_bytes
    assert row["parameters (M)"].value == records[0].parameters[-1] / 1e6
    assert row["memory (MB)"].text == f"{records[0].total_bytes[-1] / 1e6:.2f}"
    mixed = [alter(records[0], total_bytes=None), records[1]]
    assert size_cell(mixed, "total_bytes") == Cell("-"), "a mean over some of the runs would mislead"
    assert last_mean([alter(records[0], seconds=[1.0, 4.0]), alter(records[0], seconds=[2.0])], "seconds") == 3.0


def test_single_seed_has_no_spread(records: list[Record]) -> None:
    table = results_table("x", records[:1])
    assert "One seed" in table.notes[0]
    assert "±" not in table.rows[0][1].text and table.rows[0][1].interval == ""


def test_missing_readings_are_empty_cells(records: list[Record]) -> None:
    without = records[0].a_last.model_copy(update={"nme": None})
    assert results_table("x", [alter(records[0], a_last=without)]).rows[0][2] == Cell("-")


def test_differing_protocols_are_noted(records: list[Record]) -> None:
    changed = [alter(records[0], config={"memory": "6"}), *records[1:]]
    notes = results_table("x", changed).notes
    assert any(note.startswith("NOT THE SAME PROTOCOL: memory differs (6 in total; 12 in total") for note in notes)


def test_differing_class_orders_are_noted(records: list[Record]) -> None:
    notes = results_table("x", [alter(records[0], order_seed=7), records[2]]).notes
    assert "NOT THE SAME PROTOCOL: the rows have different class orders" in notes


def test_notes_of_runs_name_the_runs(records: list[Record]) -> None:
    noted = [alter(records[0], notes=["a", "b"]), alter(records[1], notes=["a"])]
    assert results_table("x", noted).notes[-2:] == ("a (all runs)", "b (iCaRL seed 0)")


def test_published_figures_stand_next_to_ours(records: list[Record]) -> None:
    published = PublishedReference("main", data="cifar100", tasks={3: 5}, memory={12: 2000})
    table = results_table("x", [with_accuracy(records[2], 62.0)], published)
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["paper A_last"].value == 60.92 and row["paper A_avg"].value == 70.82
    assert row["A_last head - paper"].text == "+1.1"
