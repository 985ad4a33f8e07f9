from __future__ import annotations

import pytest

from tests.research.altered import alter
from upcl.research.comparison import Side, compare
from upcl.research.record import Record
from upcl.research.report.contrasts import contrast_table, count_tests, report_on_contrasts
from upcl.research.report.formats import as_latex
from upcl.research.report.page import render_page


def test_table_shows_means_differences_and_tests(records: list[Record]) -> None:
    (contrast,) = compare([Side("UPCL", records[2:]), Side("iCaRL", records[:2])])
    table = contrast_table(contrast, 11)
    row = dict(zip(table.columns, table.rows[0], strict=True))
    metric = contrast.metrics[0]
    assert row["UPCL"].value == metric.first and row["iCaRL"].value == metric.second
    assert row["difference"].value == pytest.approx(metric.first - metric.second)
    assert row["difference"].interval and row["difference"].std is not None
    assert row["p"].value == metric.paired.p_value and row["p Holm"].value == metric.corrected_p_value
    assert row["pairs"].text == "2"
    assert "p rank" not in table.columns and "d" not in table.columns, "neither exists with two pairs"
    assert "(11)" in table.notes[0]


def test_small_p_values_are_not_printed_as_zero(records: list[Record]) -> None:
    (contrast,) = compare([Side("UPCL", records[2:]), Side("iCaRL", records[:2])])
    texts = {cell.text for row in contrast_table(contrast, 1).rows for cell in row}
    assert "0.000" not in texts


def test_report_has_a_section_per_contrast(records: list[Record]) -> None:
    wa = [alter(record, method="wa") for record in records[:2]]
    contrasts = compare([Side("UPCL", records[2:]), Side("iCaRL", records[:2]), Side("WA", wa)])
    report = report_on_contrasts(contrasts)
    assert report.title == "UPCL and iCaRL and WA"
    assert [section.key for section in report.sections] == ["c1-contrast", "c2-contrast"]
    keys = [chart.key for chart in report.charts]
    assert len(keys) == len(set(keys)) and keys[3] == "c1-difference"
    assert list(report.summary) == [verdict for contrast in contrasts for verdict in contrast.verdicts]
    assert count_tests(contrasts) == sum(m.paired.p_value is not None for c in contrasts for m in c.metrics)
    assert "UPCL minus iCaRL" in render_page(report)
    assert r"\begin{tabular}" in as_latex(report.tables[0])
