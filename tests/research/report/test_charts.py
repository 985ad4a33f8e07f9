from __future__ import annotations

from upcl.research.report.charts import Series, line_style


def test_many_lines_differ_in_colour_or_dash() -> None:
    styles = [line_style(Series("x", [], [], colour=k)) for k in range(25)]
    assert len(set(styles)) == 25


def test_secondary_lines_are_dashed() -> None:
    assert line_style(Series("x", [], [], secondary=True))[1] == "dash"
