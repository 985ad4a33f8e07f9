from __future__ import annotations

import json

from upcl.research.report.charts import BarChart, Heatmap, LineChart, PointGroup, ScatterChart, Series
from upcl.research.report.plotly_backend import to_plotly


def test_band_surrounds_its_line_and_skips_gaps() -> None:
    series = Series("UPCL", [1, 2, 3], [2.0, None, 4.0], [1.0, None, 3.0], [3.0, None, 5.0])
    band, line = to_plotly(LineChart("a", "A", "task", "%", (series,)))["data"]
    assert (band["x"], band["y"]) == ([1, 3, 3, 1], [3.0, 5.0, 3.0, 1.0])
    assert line["y"] == [2.0, None, 4.0] and line["showlegend"] and not band["showlegend"]


def test_name_of_two_lines_is_once_in_the_legend() -> None:
    lines = (
        Series("UPCL", [1], [2.0]),
        Series("UPCL", [1], [9.0], secondary=True),
        Series("x", [1], [1.0], secondary=True),
    )
    figure = to_plotly(LineChart("a", "A", "task", "%", lines, secondary_label="ratio"))
    assert [(trace["yaxis"], trace["showlegend"]) for trace in figure["data"]] == [
        *(("y", True), ("y2", False), ("y2", True)),
    ]
    assert figure["layout"]["yaxis2"]["title"]["text"] == "ratio"


def test_ticks_of_a_heatmap_are_at_names() -> None:
    heatmap = Heatmap(
        "a", "A", "x", "y", [[1.0, 2.5], [None, 0.0]], ["1", "0"], ["0", "a very long name of a class"], (1,)
    )
    figure = to_plotly(heatmap)
    assert figure["data"][0]["z"] == [[1, 2.5], [None, 0]]
    assert figure["layout"]["xaxis"]["tickvals"] == ["1", "0"]
    assert figure["layout"]["yaxis"]["ticktext"][1] == "a very long name …"
    assert [(s["type"], s.get("x0"), s.get("y0")) for s in figure["layout"]["shapes"]] == [
        *(("line", 0.5, -0.5), ("line", -0.5, 0.5)),
    ]


def test_thousand_classes_fit_on_a_page() -> None:
    names = [f"a class with a name {k}" for k in range(1000)]
    values = [[100.0 if i == j else 0.0 for j in range(1000)] for i in range(1000)]
    figure = to_plotly(Heatmap("a", "A", "x", "y", values, names, names))
    assert len(json.dumps(figure, separators=(",", ":"))) < 2_200_000


def test_points_and_bars_have_their_names() -> None:
    group = PointGroup("prototypes", [0.0], [1.0], ["owl"], 4, "cross")
    (points,) = to_plotly(ScatterChart("a", "A", (group,)))["data"]
    assert points["text"] == ["owl"] and points["marker"]["symbol"] == "cross-thin"
    bars = BarChart("a", "A", "x", "y", ["owl", "cat"], (Series("UPCL", [0], [5.0]),))
    assert to_plotly(bars)["data"][0]["text"] == ["owl"]
    assert to_plotly(bars)["layout"]["xaxis"]["ticktext"] == ["owl", "cat"]
