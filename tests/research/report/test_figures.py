from __future__ import annotations

import pytest

from tests.research.altered import alter, with_accuracy
from upcl.research.paper.uniformity import Uniformity
from upcl.research.record import Record
from upcl.research.report import figures
from upcl.research.report.figures import group_stored_runs
from upcl.research.report.load import StoredRun


def test_bands_span_the_seeds(stored_runs: list[StoredRun]) -> None:
    head, *_ = figures.accuracy(group_stored_runs(stored_runs))
    curves = [run.record.top1.head for run in stored_runs[2:]]
    series = next(series for series in head.series if series.name == "UPCL")
    assert list(series.low) == [min(pair) for pair in zip(*curves, strict=True)]
    assert list(series.high) == [max(pair) for pair in zip(*curves, strict=True)]
    assert list(series.y) == pytest.approx([sum(pair) / 2 for pair in zip(*curves, strict=True)])


def test_curves_of_different_lengths_are_averaged_where_they_exist() -> None:
    series = figures.mean_series("x", 0, [[1.0, None, 5.0], [3.0, None]])
    assert (series.x, series.y) == ([1, 2, 3], [2.0, None, 5.0])
    assert (series.low, series.high) == ([1.0, None, 5.0], [3.0, None, 5.0])


def test_single_run_has_no_band() -> None:
    series = figures.mean_series("x", 0, [[1.0, 2.0]])
    assert series.low == series.high == ()


def test_methods_without_a_curve_are_left_out(stored_runs: list[StoredRun]) -> None:
    run = stored_runs[2]
    without = StoredRun(
        run.folder, alter(run.record, top1=run.record.top1.model_copy(update={"nme": None, "both": None}))
    )
    assert [chart.key for chart in figures.accuracy({"UPCL": [without]})] == ["accuracy-head"]
    none = StoredRun(run.folder, alter(run.record, coherence=[None, None, None]))
    assert list(figures.coherence({"UPCL": [none]})) == []


def test_imbalance_is_drawn_against_the_right_axis(stored_runs: list[StoredRun]) -> None:
    (chart,) = figures.imbalance({"UPCL": stored_runs[2:3]})
    solid, dashed = chart.series
    record = stored_runs[2].record
    assert (list(solid.y), solid.secondary) == (record.top1.head, False)
    assert (list(dashed.y), dashed.secondary) == (record.imbalance_ratio, True)
    assert solid.colour == dashed.colour and chart.secondary_label == "imbalance ratio"


def test_old_and_new_classes_are_apart(stored_runs: list[StoredRun]) -> None:
    old, new = figures.old_and_new({"UPCL": stored_runs[2:3]})
    assert list(old.series[0].y) == [None, *stored_runs[2].record.old.head[1:]]
    assert list(new.series[0].y) == stored_runs[2].record.new.head


def test_accuracy_by_memory_is_a_mean_over_seeds(records: list[Record]) -> None:
    runs = [
        with_accuracy(records[2], value, config={"memory": memory})
        for value, memory in ((50.0, "100"), (60.0, "100"), (30.0, "20"))
    ]
    (chart,) = figures.accuracy_by_memory({"UPCL": runs})
    (series,) = chart.series
    assert (series.x, series.y) == ([20, 100], [30.0, 55.0])
    assert (series.low, series.high) == ([30.0, 50.0], [30.0, 60.0])


def test_uniformity_is_sorted_by_number() -> None:
    measured = [Uniformity("Gaussian", num, 64, 3, mean, mean - 1, mean + 1) for num, mean in ((20, 4.0), (10, 5.0))]
    (chart,) = figures.uniformity(measured)
    assert (chart.series[0].x, chart.series[0].y, chart.series[0].low) == ([10, 20], [5.0, 4.0], [4.0, 3.0])
    assert "64 dimensions" in chart.title
