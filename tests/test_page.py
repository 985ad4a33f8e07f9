"""The page of real runs, opened in a browser."""

from __future__ import annotations

import dataclasses
import html
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from upcl.research.report.content import Content, of_runs
from upcl.research.report.load import read_runs
from upcl.research.report.write import write_page

from .browser import browser, needs_chromium, requested
from .test_report import folder

__all__ = ["folder"]
pytestmark = [needs_chromium, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def written(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    content: Content = of_runs(read_runs([folder]))
    return write_page(content, tmp_path_factory.mktemp("page") / "report.html")


def wait_for(true: Callable[[], Any]) -> Any:
    until = time.monotonic() + 30
    while not (found := true()):
        assert time.monotonic() < until, "the page never came to this"
        time.sleep(0.1)
    return found


LABELS = """
const shown = (chart, axis, side) => [...chart.querySelectorAll(`.${axis}tick text`)]
  .map((text) => [text.getBoundingClientRect()[side], text.textContent])
  .sort((a, b) => a[0] - b[0]).map((pair) => pair[1]);
return [...document.querySelectorAll('.chart.heat')].flatMap((chart) => ['x', 'y'].map((axis) =>
  [figures[chart.dataset.chart].layout[`${axis}axis`].ticktext, shown(chart, axis, axis === 'x' ? 'left' : 'top')]));
"""


@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_the_page_draws_every_chart_without_network_or_errors(written: Path, tmp_path: Path, width: int) -> None:
    with browser(tmp_path / "profile", width) as driver:
        driver.get(written.as_uri())
        num = driver.execute_script("return document.querySelectorAll('.chart').length")
        assert num > 15
        missing = "return document.querySelectorAll('.chart:not(:has(svg.main-svg))').length"
        wait_for(lambda: driver.execute_script(missing) == 0)  # also those that are not in sight
        for wanted, found in driver.execute_script(LABELS):
            assert [html.unescape(name) for name in wanted] == found, "names stand at their own rows and columns"
        assert [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []
        assert requested(driver) == [written.as_uri()]
        assert driver.execute_script("return window.evil") is None
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width, "nothing sticks out"
        assert driver.execute_script(OVERLAPPING) == []


def test_long_names_fit_a_phone_and_prints_are_black_on_white(folder: Path, tmp_path: Path) -> None:
    content = of_runs(read_runs([folder]))
    (table, *others), rest = content.sections[0].tables, content.sections[1:]
    long = dataclasses.replace(table, title="synthetic:" + "classes=4,size=8," * 9)
    first = dataclasses.replace(content.sections[0], tables=(long, *others))
    path = write_page(dataclasses.replace(content, sections=(first, *rest)), tmp_path / "report.html")
    with browser(tmp_path / "profile", 390) as driver:
        driver.get(path.as_uri())
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 390
        dark = [{"name": "prefers-color-scheme", "value": "dark"}]
        for media, ink in (("screen", "rgb(230, 233, 238)"), ("print", "rgb(0, 0, 0)")):
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": dark})
            assert driver.execute_script("return getComputedStyle(document.body).color") == ink


OVERLAPPING = """
const boxes = [...document.querySelectorAll('h1, h2, h3, p, .scroll, figure, .row, dt, dd, nav a, #theme')]
  .map((e) => [e.tagName + ' ' + e.textContent.slice(0, 30), e.getBoundingClientRect(), e]);
const found = [];
for (const [i, [a, x, e]] of boxes.entries()) for (const [b, y, f] of boxes.slice(i + 1))
  if (!e.contains(f) && !f.contains(e) && x.left < y.right - 1 && y.left < x.right - 1
      && x.top < y.bottom - 1 && y.top < x.bottom - 1) found.push(a + ' / ' + b);
return found;
"""


def test_columns_sort_and_points_tell_their_values(written: Path, tmp_path: Path) -> None:
    from selenium.webdriver import ActionChains

    with browser(tmp_path / "profile") as driver:
        driver.get(written.as_uri())
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
        told = wait_for(lambda: [e.text for e in chart.find_elements("css selector", ".hoverlayer .hovertext")])
        assert "at 1" in told[0]


def test_dark_and_light_and_print(written: Path, tmp_path: Path) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    with browser(tmp_path / "profile") as driver:
        driver.get(written.as_uri())
        light = driver.execute_script(ground)
        driver.find_element("css selector", "#theme").click()
        dark = driver.execute_script(ground)
        assert light == "rgb(255, 255, 255)"
        assert dark != light
        printed = driver.execute_cdp_cmd("Page.printToPDF", {})
        assert len(printed["data"]) > 50_000
        drawn = driver.execute_script("return document.querySelectorAll('.chart svg.main-svg').length")
        assert drawn >= driver.execute_script("return document.querySelectorAll('.chart').length")
