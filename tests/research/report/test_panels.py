from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.research.altered import alter_run
from upcl.research.report import panels
from upcl.research.report.figures import group_stored_runs
from upcl.research.report.load import StoredRun
from upcl.training.events import Event


def test_confusion_is_percent_of_each_class_with_task_boundaries(stored_runs: list[StoredRun]) -> None:
    heatmaps = list(panels.confusion(group_stored_runs(stored_runs)))
    assert [heatmap.title for heatmap in heatmaps] == ["iCaRL (2 seeds)", "UPCL (2 seeds)"]
    for heatmap in heatmaps:
        assert [sum(value or 0 for value in row) for row in heatmap.values] == pytest.approx([100] * 6, abs=0.1)
        assert heatmap.boundaries == (2, 4)


def test_confusion_sums_runs_with_the_same_class_order_only(stored_runs: list[StoredRun]) -> None:
    first, second = stored_runs[2:]
    other = alter_run(second, class_order=second.record.class_order[::-1])
    (heatmap,) = panels.confusion({"UPCL": [first, other]})
    counts = np.array(first.record.confusion.head)
    expected = (100 * counts / counts.sum(1, keepdims=True)).round(1)
    assert heatmap.title == "UPCL" and heatmap.values == expected.tolist()


def test_confusion_of_too_many_classes_is_left_out(
    stored_runs: list[StoredRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panels, "MAX_CONFUSION", 5)  # older records have the table for any number of classes
    assert not list(panels.confusion(group_stored_runs(stored_runs)))


def test_matrix_is_a_lower_triangle_of_means(stored_runs: list[StoredRun]) -> None:
    (heatmap,) = panels.accuracy_matrix({"UPCL": stored_runs[2:]})
    a, b = (run.record.top1_matrix.head for run in stored_runs[2:])
    assert [len(row) for row in heatmap.values] == [3, 3, 3]
    for t in range(3):
        for j in range(3):
            assert heatmap.values[t][j] == (pytest.approx((a[t][j] + b[t][j]) / 2) if j <= t else None)


def test_forgetting_by_class_agrees_with_the_record(stored_runs: list[StoredRun]) -> None:
    (chart,) = panels.forgetting(group_stored_runs(stored_runs))
    rows = stored_runs[2].record.top1_by_class.head
    upcl = next(series for series in chart.series if series.name == "UPCL")
    best = [max(value for row in rows[:-1] if len(row) > k and (value := row[k]) is not None) for k in range(4)]
    assert list(upcl.y) == [before - (after or 0) for before, after in zip(best, rows[-1], strict=False)]
    assert list(chart.names) == stored_runs[2].record.classes[:4]


def test_bars_of_different_class_orders_are_numbered(stored_runs: list[StoredRun]) -> None:
    other = alter_run(stored_runs[0], order_seed=7, classes=stored_runs[0].record.classes[::-1])
    (chart,) = panels.forgetting(group_stored_runs([other, stored_runs[2]]))
    assert list(chart.names) == ["1", "2", "3", "4"], "names of one order would be wrong for the other"


def test_losses_have_a_line_per_term_and_a_boundary_per_task(stored_runs: list[StoredRun]) -> None:
    (chart,) = panels.losses({"iCaRL": stored_runs[:1]})
    events = stored_runs[0].events
    assert [series.name for series in chart.series] == ["ce", "kd"]
    assert list(chart.series[1].y) == [None, None, *(event.losses["kd"] for event in events[2:])]
    assert chart.boundaries == (2.5, 4.5)


def test_only_heads_with_prototypes_have_an_assignment(stored_runs: list[StoredRun]) -> None:
    charts = list(panels.assignment(group_stored_runs(stored_runs)))
    assert [chart.title for chart in charts] == ["UPCL: assignment"]
    assert len(charts[0].series[0].y) == 6


def test_assignment_changes_are_counted_between_epochs_of_a_task(stored_runs: list[StoredRun]) -> None:
    stored = stored_runs[2]
    owned = [(0, [0, 1, 2, 3]), (0, [1, 0, 2, 3]), (0, [1, 0, 2, 3]), (1, [0, 1]), (1, [1, 0])]
    stored.__dict__["events"] = [
        Event(task=task, stage=0, epoch=0, losses={}, assignment=owner, alignment=0.5) for task, owner in owned
    ]
    (chart,) = panels.assignment({"UPCL": [stored]})
    assert list(chart.series[0].y) == [0, 50, 0, 0, 100]
    assert list(chart.series[1].y) == [0.5] * 5
    assert chart.boundaries == (3.5,)


def test_feature_map_separates_old_new_and_prototypes(stored_runs: list[StoredRun]) -> None:
    (chart,) = panels.feature_map({"UPCL": stored_runs[2:]})
    sketch = stored_runs[2].sketch
    assert sketch is not None
    sizes = {group.name: len(group.x) for group in chart.groups}
    old = int((sketch["labels"] < 4).sum())
    new = len(sketch["labels"]) - old
    assert sizes == {"old classes": old, "new classes": new, "prototypes, old": 4, "prototypes, new": 2}
    labels = [label for group in chart.groups[2:] for label in group.labels]
    assert labels == stored_runs[2].record.classes


def test_runs_without_a_sketch_have_no_map(stored_runs: list[StoredRun], tmp_path: Path) -> None:
    assert list(panels.feature_map({"UPCL": [StoredRun(tmp_path, stored_runs[2].record)]})) == []
