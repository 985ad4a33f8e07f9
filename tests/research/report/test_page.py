"""The page as text, and in a browser where there is one."""

from __future__ import annotations

import dataclasses
import html
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser import browser, needs_chromium, requested
from tests.research.conftest import HOSTILE_NAME
from upcl.research.report.content import Report
from upcl.research.report.page import render_page
from upcl.research.report.write import write_page

in_browser = [needs_chromium, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def test_names_from_data_are_escaped(report: Report) -> None:
    text = render_page(report)
    assert HOSTILE_NAME not in text
    assert "&lt;script&gt;window.evil" in text
    assert "evil &amp; co" in text


def test_page_shows_tables_commands_and_version(report: Report) -> None:
    text = render_page(report)
    cell = report.tables[0].rows[0][1]
    assert f'<td data-value="{cell.value}">{cell.text}<small>{cell.interval}</small></td>' in text
    assert "Click a column header to sort." in text
    assert "(no command: the data set &#39;evil &amp; co&#39; was created in Python)" in text
    assert "This page works offline." in text


def test_warnings_stand_out(report: Report) -> None:
    table = dataclasses.replace(report.tables[0], notes=("NOT THE SAME PROTOCOL: x", "selected on TEST data", "fine"))
    section = dataclasses.replace(report.sections[0], tables=(table,))
    text = render_page(dataclasses.replace(report, sections=(section,)))
    assert text.count('class="note warning"') == 2 and '<p class="note">fine</p>' in text


@pytest.fixture(scope="module")
def page(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(report, tmp_path_factory.mktemp("page") / "report.html")


def wait_for(condition: Callable[[], Any]) -> Any:
    until = time.monotonic() + 30
    while not (found := condition()):
        assert time.monotonic() < until, "the page never reached this state"
        time.sleep(0.1)
    return found


LABELS = """
const shown = (chart, axis, side) => [...chart.querySelectorAll(`.${axis}tick text`)]
  .map((text) => [text.getBoundingClientRect()[side], text.textContent])
  .sort((a, b) => a[0] - b[0]).map((pair) => pair[1]);
return [...document.querySelectorAll('.chart.heatmap')].flatMap((chart) => ['x', 'y'].map((axis) =>
  [figures[chart.dataset.chart].layout[`${axis}axis`].ticktext, shown(chart, axis, axis === 'x' ? 'left' : 'top')]));
"""
OVERLAPPING = """
const boxes = [...document.querySelectorAll('h1, h2, h3, p, .scroll, figure, .row, dt, dd, nav a, #theme')]
  .map((e) => [e.tagName + ' ' + e.textContent.slice(0, 30), e.getBoundingClientRect(), e]);
const found = [];
for (const [i, [a, x, e]] of boxes.entries()) for (const [b, y, f] of boxes.slice(i + 1))
  if (!e.contains(f) && !f.contains(e) && x.left < y.right - 1 && y.left < x.right - 1
      && x.top < y.bottom - 1 && y.top < x.bottom - 1) found.push(a + ' / ' + b);
return found;
"""


class TestInBrowser:
    pytestmark = in_browser

    @pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
    def test_every_chart_is_drawn_without_network_or_errors(self, page: Path, tmp_path: Path, width: int) -> None:
        with browser(tmp_path / "profile", width) as driver:
            driver.get(page.as_uri())
            assert driver.execute_script("return document.querySelectorAll('.chart').length") > 15
            missing = "return document.querySelectorAll('.chart:not(:has(svg.main-svg))').length"
            wait_for(lambda: driver.execute_script(missing) == 0)  # also those outside of the viewport
            labels = driver.execute_script(LABELS)
            assert labels
            for expected, found in labels:
                assert [html.unescape(name) for name in expected] == found, "names are at their own rows and columns"
            assert [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []
            assert requested(driver) == [page.as_uri()]
            assert driver.execute_script("return window.evil") is None
            assert driver.execute_script("return document.documentElement.scrollWidth") <= width, "nothing sticks out"
            assert driver.execute_script(OVERLAPPING) == []

    def test_long_names_fit_a_phone_and_prints_are_black_on_white(self, report: Report, tmp_path: Path) -> None:
        (table, *others), rest = report.sections[0].tables, report.sections[1:]
        long = dataclasses.replace(table, title="synthetic:" + "classes=4,size=8," * 9)
        first = dataclasses.replace(report.sections[0], tables=(long, *others))
        path = write_page(dataclasses.replace(report, sections=(first, *rest)), tmp_path / "report.html")
        with browser(tmp_path / "profile", 390) as driver:
            driver.get(path.as_uri())
            assert driver.execute_script("return document.documentElement.scrollWidth") <= 390
            dark = [{"name": "prefers-color-scheme", "value": "dark"}]
            for media, ink in (("screen", "rgb(230, 233, 238)"), ("print", "rgb(0, 0, 0)")):
                driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": dark})
                assert driver.execute_script("return getComputedStyle(document.body).color") == ink

    def test_columns_sort_and_points_show_their_values(self, page: Path, tmp_path: Path) -> None:
        from selenium.webdriver import ActionChains

        with browser(tmp_path / "profile") as driver:
            driver.get(page.as_uri())
            table = driver.find_element("css selector", "#table table")
            header = table.find_elements("css selector", "thead th")[1]

            def column() -> list[float]:
                rows = table.find_elements("css selector", "tbody tr")
                return [float(row.find_elements("css selector", "td")[0].get_attribute("data-value")) for row in rows]

            header.click()
            assert column() == sorted(column(), reverse=True)
            header.click()
            assert column() == sorted(column())
            assert header.get_attribute("aria-sort") == "ascending"

            chart = driver.find_element("css selector", "[data-chart=accuracy-head]")
            driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
            point = wait_for(lambda: chart.find_elements("css selector", ".scatterlayer .points path"))[0]
            ActionChains(driver).move_to_element(point).pause(0.3).move_by_offset(1, 1).perform()
            shown = wait_for(lambda: [e.text for e in chart.find_elements("css selector", ".hoverlayer .hovertext")])
            assert "at 1" in shown[0]

    def test_themes_switch_and_prints_hold_every_chart(self, page: Path, tmp_path: Path) -> None:
        background = "return getComputedStyle(document.body).backgroundColor"
        with browser(tmp_path / "profile") as driver:
            driver.get(page.as_uri())
            light = driver.execute_script(background)
            driver.find_element("css selector", "#theme").click()
            assert light == "rgb(255, 255, 255)"
            assert driver.execute_script(background) != light
            printed = driver.execute_cdp_cmd("Page.printToPDF", {})
            assert len(printed["data"]) > 50_000
            drawn = driver.execute_script("return document.querySelectorAll('.chart svg.main-svg').length")
            assert drawn >= driver.execute_script("return document.querySelectorAll('.chart').length")
