from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

from tests.research.altered import alter, with_accuracy
from upcl.core.errors import UserError
from upcl.research.comparison import Contrast, Side, compare, difference_curves
from upcl.research.record import Record
from upcl.research.statistics import holm


def side(name: str, record: Record, values: dict[int, float]) -> Side:
    return Side(name, [with_accuracy(record, value, seed=seed) for seed, value in values.items()])


@pytest.fixture
def sides(records: list[Record]) -> list[Side]:
    """Two methods on four common seeds, in another order, and one seed of each alone."""
    first = {0: 50.0, 1: 52.0, 2: 51.0, 3: 55.0, 4: 90.0}
    second = {3: 52.0, 2: 49.5, 1: 51.0, 0: 48.0, 9: 10.0}
    return [side("UPCL", records[2], first), side("iCaRL", records[0], second)]


def test_a_contrast_equals_scipy(sides: list[Side]) -> None:
    (contrast,) = compare(sides, ["a_last"], ["head"])
    (metric,) = contrast.metrics
    a, b = np.array([50.0, 52.0, 51.0, 55.0]), np.array([48.0, 51.0, 49.5, 52.0])
    expected = stats.ttest_rel(a, b)
    interval = expected.confidence_interval()
    assert (metric.first, metric.second) == (a.mean(), b.mean()), "means over pairs only"
    assert metric.paired.difference.mean == pytest.approx((a - b).mean())
    assert metric.paired.p_value == metric.corrected_p_value == pytest.approx(expected.pvalue)
    assert metric.paired.difference.half_width == pytest.approx((interval.high - interval.low) / 2)
    assert len(contrast.pairs) == 4 and all(x.seed == y.seed for x, y in contrast.pairs)
    alone = "UPCL, seed 4, class order 1993; iCaRL, seed 9, class order 1993"
    assert f"Left out, without a partner: {alone}." in contrast.notes


def test_p_values_are_corrected_for_all_tests_together(sides: list[Side], records: list[Record]) -> None:
    third = side("WA", alter(records[1], method="wa"), {0: 45.0, 1: 49.0, 2: 44.0})
    contrasts = compare([*sides, third], ["a_last"], ["head"])
    found = [metric for contrast in contrasts for metric in contrast.metrics]
    assert [(c.first, c.second) for c in contrasts] == [("UPCL", "iCaRL"), ("UPCL", "WA")]
    assert [metric.corrected_p_value for metric in found] == holm([metric.paired.p_value for metric in found])
    assert any(metric.corrected_p_value != metric.paired.p_value for metric in found)


def test_all_metrics_are_compared_by_default(records: list[Record]) -> None:
    (contrast,) = compare([Side("UPCL", records[2:]), Side("iCaRL", records[:2])])
    titles = [metric.title for metric in contrast.metrics]
    readings = ("head", "nme", "both")
    accuracies = [f"{name} {reading}" for name in ("A_last", "A_avg", "forgetting") for reading in readings]
    assert titles == [*accuracies, "seconds", "total MB"]
    memory = contrast.metrics[-1]
    assert records[2].total_bytes and records[0].total_bytes
    assert memory.first == records[2].total_bytes[-1] / 1e6
    assert memory.paired.p_value is None, "the same in every pair"
    assert "UPCL and iCaRL differ by +" in contrast.verdicts[-1] and "in all 2 pairs" in contrast.verdicts[-1]


def test_a_single_pair_concludes_nothing(records: list[Record]) -> None:
    (contrast,) = compare([Side("UPCL", records[2:3]), Side("iCaRL", records[:1])], ["a_last"], ["head"])
    assert contrast.metrics[0].paired.difference.half_width is None
    assert contrast.verdicts == ["A_last head: one pair only, no interval; nothing can be concluded about other seeds."]
    assert "One pair only: an interval and tests need two." in contrast.notes


@pytest.mark.parametrize(
    ("second", "verdict"),
    [
        ({0: 48.0, 1: 50.1, 2: 49.0, 3: 52.9}, "UPCL is higher than iCaRL by 2.0 (95 % interval"),
        ({0: 52.0, 1: 54.1, 2: 53.0, 3: 56.9}, "UPCL is lower than iCaRL by 2.0 (95 % interval"),
        ({0: 60.0, 1: 45.0, 2: 51.0, 3: 50.0}, "UPCL and iCaRL cannot be distinguished (95 % interval"),
        ({0: 50.0, 1: 52.0, 2: 51.0, 3: 55.0}, "UPCL and iCaRL are equal in all 4 pairs."),
    ],
)
def test_verdicts_say_what_can_be_concluded(
    sides: list[Side], records: list[Record], second: dict[int, float], verdict: str
) -> None:
    (contrast,) = compare([sides[0], side("iCaRL", records[0], second)], ["a_last"], ["head"])
    assert contrast.verdicts[0].startswith(f"A_last head: {verdict}")


def test_what_holds_only_by_itself_is_said(sides: list[Side]) -> None:
    (contrast,) = compare(sides, ["a_last"], ["head"])
    weak = dataclasses.replace(contrast.metrics[0], corrected_p_value=0.2)
    assert weak.verdict("a", "b").endswith("), but not if all tests are corrected for (p = 0.200).")
    strong = dataclasses.replace(contrast.metrics[0], corrected_p_value=0.04)
    assert strong.verdict("a", "b").endswith(", corrected 0.040).")


def test_other_conditions_are_refused_and_named(records: list[Record]) -> None:
    others = [alter(record, config={"memory": "6"}) for record in records[:2]]
    with pytest.raises(UserError, match=r"not run under equal conditions: memory differs \(12 in total; 6 in total\)"):
        compare([Side("UPCL", records[2:]), Side("iCaRL", others)])
    with pytest.raises(UserError, match="no seed and class order of UPCL is one of iCaRL: UPCL, seed 0"):
        compare([Side("UPCL", records[2:3]), Side("iCaRL", records[1:2])])


def test_each_set_of_conditions_is_a_contrast(records: list[Record]) -> None:
    def smaller(record: Record) -> Record:
        return alter(record, config={"memory": "6"})

    first = Side("UPCL", [*records[2:], *map(smaller, records[2:])])
    second = Side("iCaRL", [*map(smaller, records[:2]), alter(records[0], config={"memory": "4"}), *records[:2]])
    contrasts = compare([first, second], ["a_last"], ["head"])
    assert [contrast.title.rpartition(" ")[2] for contrast in contrasts] == ["12", "6"]
    assert "Left out, since the other side was not run under their conditions: 1 runs." in contrasts[0].notes


def test_recipes_may_differ_and_are_noted(records: list[Record]) -> None:
    recipes = records[0].config.recipes
    faster = type(recipes)(*(dataclasses.replace(each, lr=9.0) for each in (recipes.first, recipes.later)))
    others = [alter(record, config={"recipes": faster}) for record in records[:2]]
    (contrast,) = compare([Side("UPCL", records[2:]), Side("iCaRL", others)])
    notes = [note for note in contrast.notes if note.startswith("Trained with different recipes (UPCL and iCaRL):")]
    assert notes and "lr " in notes[0] and "9.0" in notes[0]


def test_machines_that_differ_are_noted(records: list[Record]) -> None:
    others = [alter(record, environment={**record.environment, "threads": 64}) for record in records[:2]]
    (contrast,) = compare([Side("UPCL", records[2:]), Side("iCaRL", others)])
    assert "The runs were made in different environments: seconds are not comparable." in contrast.notes


def test_equal_total_memory_takes_the_place_of_equal_exemplars(records: list[Record]) -> None:
    def resized(record: Record, size: int | None) -> Record:
        return alter(record, config={"memory": "6"}, total_bytes=[1, 2, size] if size else None)

    first = Side("UPCL", [resized(record, 1_000_000) for record in records[2:]])
    second = Side("iCaRL", [alter(resized(record, 1_009_000), config={"memory": "20"}) for record in records[:2]])
    with pytest.raises(UserError, match="memory differs"):
        compare([first, second])
    (contrast,) = compare([first, second], equal_total=True)
    assert len(contrast.pairs) == 2
    larger = Side("iCaRL", [resized(record, 1_020_000) for record in records[:2]])
    with pytest.raises(UserError, match=r"UPCL: 1.00 MB; iCaRL: 1.02 MB\): run both with --memory 1020000B-total"):
        compare([first, larger], equal_total=True)
    with pytest.raises(UserError, match="earlier version: run them again"):
        compare([first, Side("iCaRL", [resized(record, None) for record in records[:2]])], equal_total=True)


def test_records_without_costs_have_no_total_memory(records: list[Record]) -> None:
    earlier = [alter(record, total_bytes=None) for record in records]
    (contrast,) = compare([Side("UPCL", earlier[2:]), Side("iCaRL", earlier[:2])])
    assert contrast.metrics[-1].metric == "seconds"
    assert "Total memory is not known: the records are of an earlier version." in contrast.notes


def test_curves_are_differences_of_pairs(records: list[Record]) -> None:
    contrast = Contrast("UPCL", "iCaRL", ((records[2], records[0]),), (), ())
    a, b = records[2].top1.head, records[0].top1.head
    assert difference_curves(contrast, "head") == [[x - y for x, y in zip(a, b, strict=True)]]
    without = alter(records[0], top1=records[0].top1.model_copy(update={"nme": None}))
    assert difference_curves(Contrast("UPCL", "iCaRL", ((records[2], without),), (), ()), "nme") == []


def test_each_method_that_two_grids_hold_is_compared(records: list[Record]) -> None:
    def again(record: Record, loss: float) -> Record:
        return with_accuracy(record, record.a_last.head - loss, config_digest=f"other {record.config_digest}")

    icarl, upcl = records[:2], records[2:]
    other = [again(record, loss) for record, loss in zip(records, (1.0, 2.0, 4.0, 6.0), strict=True)]
    found = compare([Side("a", records), Side("b", other)], ["a_last"], ["head"])
    assert [(each.method, each.first, each.second) for each in found] == [("iCaRL", "a", "b"), ("UPCL", "a", "b")]
    assert [each.metrics[0].paired.difference.mean for each in found] == pytest.approx([1.5, 5.0])
    assert found[0].title.startswith("iCaRL: a and b: ") and found[1].verdicts[0].startswith("UPCL: A_last head: ")
    corrected = [each.metrics[0].corrected_p_value for each in found]
    assert corrected == holm([each.metrics[0].paired.p_value for each in found]), "of all methods together"

    (contrast,) = compare([Side("a", records), Side("b", [*other[:2], *upcl])], ["a_last"], ["head"])
    assert contrast.method == "iCaRL" and "Left out: UPCL: the same runs on both sides." in contrast.notes
    (contrast,) = compare([Side("a", icarl), Side("b", other)], ["a_last"], ["head"])
    assert contrast.method == "iCaRL" and "Left out: UPCL: not in a." in contrast.notes
    with pytest.raises(UserError, match=r"(?s)no method can be compared:.*iCaRL: not in b.*UPCL: the same runs"):
        compare([Side("a", records), Side("b", upcl)])
