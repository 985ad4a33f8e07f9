"""A headless Chromium for tests of pages; they are skipped, with a reason, where there is none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no chromium with chromedriver here (Debian: apt-get install chromium-driver)"
)
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-background-networking --disable-component-update "
    "--disable-sync --no-first-run --hide-scrollbars --use-fake-device-for-media-stream --use-fake-ui-for-media-stream"
)


@contextmanager
def browser(profile: Path, width: int = 1280, height: int = 1000) -> Iterator[Any]:
    """A browser with an empty profile that logs its console and every request."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    assert CHROMIUM and DRIVER
    options = Options()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS.split(), f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        yield driver
    except BaseException as error:
        error.add_note(shown(driver))
        raise
    finally:
        driver.quit()


def shown(driver: Any) -> str:
    """What a person would see, and what the browser logged: added to the error of a test that fails."""
    script = (
        "return [document.visibilityState, document.activeElement?.outerHTML.slice(0, 200), document.body.innerText]"
    )
    try:
        state, active, text = driver.execute_script(script)
        logged = [entry["message"] for entry in driver.get_log("browser")]
    except Exception as error:
        return f"(the page does not answer: {type(error).__name__})"
    return f"page {driver.current_url} ({state}), focus on {active}\n{text}\nlogged: {logged}"


def requested(driver: Any) -> list[str]:
    """The addresses that were asked for, but for the page's own data and the browser's own start page."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    urls = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [url for url in urls if not url.startswith(("data:", "blob:", "chrome:", "about:"))]
