from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tests.research.altered import alter_run
from upcl.research.paper import experiments
from upcl.research.record import ByReading
from upcl.research.report.compose import describe_setting, report_on_experiment, report_on_runs
from upcl.research.report.content import Report
from upcl.research.report.load import StoredRun


def cut_short(run: StoredRun) -> StoredRun:
    """A copy of a run that is interrupted after its second task, with an A_last of 99."""
    record = run.record

    def first_two(by_reading: ByReading[Any]) -> ByReading[Any]:
        return ByReading[Any](head=by_reading.head[:2], nme=by_reading.nme and by_reading.nme[:2])

    curves = ("top1", "top1_matrix", "top1_by_class", "old", "new")
    lists = ("seconds", "imbalance_ratio", "coherence", "peak_memory_mb", "exemplars")
    confusion = ByReading[Any](head=np.array(record.confusion.head)[:4, :4].tolist(), nme=None)
    shortened: dict[str, Any] = {
        **{key: first_two(getattr(record, key)) for key in curves},
        **{key: getattr(record, key)[:2] for key in lists},
    }
    accuracy = ByReading[float](head=99.0, nme=99.0)
    return alter_run(run, finished=False, a_last=accuracy, confusion=confusion, **shortened)


def test_report_has_every_section(report: Report) -> None:
    assert [section.key for section in report.sections] == [
        *("table", "accuracy", "old-new", "ratio", "coherence", "cost", "metrics", "confusion", "matrix", "forgetting"),
        *("tsne", "losses", "assignment", "exemplars", "errors", "runs"),
    ]
    assert len({chart.key for chart in report.charts}) == len(report.charts)
    assert report.summary == ("4 runs, seeds 0, 1.",)


def test_tables_alone_need_no_figures(stored_runs: list[StoredRun]) -> None:
    report = report_on_runs(stored_runs, "Mine", ["a note"], only_tables=True)
    assert (report.title, report.summary[1:], report.charts) == ("Mine", ("a note",), [])
    titles = ["Results: evil & co, 3 tasks", "Paired differences"]
    costs = ["Memory: evil & co, 3 tasks", "Further metrics: evil & co, 3 tasks"]
    assert [table.title for table in report.tables] == [*titles, *costs]


def test_unfinished_runs_are_left_out_and_noted(stored_runs: list[StoredRun]) -> None:
    table = report_on_runs([stored_runs[2], cut_short(stored_runs[3])]).tables[0]
    assert table.rows[0][1].value == stored_runs[2].record.a_last.head
    assert "left out because it is not finished: UPCL, seed 1" in table.notes


def test_unfinished_run_alone_is_shown_and_noted(stored_runs: list[StoredRun]) -> None:
    report = report_on_runs([cut_short(stored_runs[3])])
    assert report.tables[0].rows[0][1].value == 99.0
    assert "UPCL, seed 1: not finished" in report.tables[0].notes
    confusion = next(section for section in report.sections if section.key == "confusion")
    assert len(confusion.charts[0].rows) == 4  # type: ignore[union-attr]


def test_settings_are_chapters_with_their_own_keys(stored_runs: list[StoredRun]) -> None:
    other = alter_run(stored_runs[2], data="other", config={"data": "other"})
    report = report_on_runs([stored_runs[0], other])
    assert [name for name, _ in report.chapters] == ["evil & co, 3 tasks", "other, 3 tasks"]
    assert [sections[0].key for _, sections in report.chapters] == ["s1-table", "s2-table"]
    assert len({chart.key for chart in report.charts}) == len(report.charts)


def test_experiment_puts_its_topics_first_and_stamps_its_scale(stored_runs: list[StoredRun]) -> None:
    experiment = dataclasses.replace(experiments.load("ablation"), topics=("confusion", "curves"))
    report = report_on_experiment(experiment, stored_runs, notes=["1 run is missing"])
    assert [section.key for section in report.sections][:3] == ["confusion", "accuracy", "table"]
    assert all(chart.title.endswith(" (quick)") for chart in report.charts)
    assert report.summary[0] == f"The paper claims: {experiment.claim}"
    assert report.summary[2].startswith("Our setting: scaled down (quick), NOT the paper's setting: evil & co, 3 tasks")
    assert report.summary[-1] == "1 run is missing"
    assert [table.title for table in report.tables][1] == "What each component contributes"
    assert any("NOT the paper's setting" in note for note in report.tables[0].notes)


def test_experiment_on_memory_has_a_table_and_a_figure_by_memory(stored_runs: list[StoredRun]) -> None:
    report = report_on_experiment(experiments.load("memory"), stored_runs)
    assert report.sections[0].key == "memory"
    assert report.sections[0].tables[0].title == "By memory size: evil & co, 3 tasks"
    assert [chart.key for chart in report.sections[0].charts] == ["over-memory"]


def test_setting_lists_only_what_runs_share(stored_runs: list[StoredRun]) -> None:
    assert describe_setting(stored_runs) == (
        "evil & co, 3 tasks, memory 12, backbone small, 2 epochs per task, protocol honest, seeds 0, 1, "
        "class orders 1993."
    )
    recipes = stored_runs[0].record.config.recipes
    later = type(recipes)(recipes.first, recipes.later.scaled(5))
    other = alter_run(stored_runs[0], config={"memory": "6", "recipes": later})
    assert "memory" not in describe_setting([*stored_runs, other])
    assert "epochs" not in describe_setting([*stored_runs, other])
    assert "2 epochs for the first task and 5 for later ones" in describe_setting([other])
