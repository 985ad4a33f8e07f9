"""The service in a process of its own, under load and in a browser."""

from __future__ import annotations

import base64
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.browser import browser, needs_chromium, requested
from tests.model.server.uploads import SVG, decompression_bomb


@pytest.fixture(scope="module")
def address(model_file: Path) -> Iterator[str]:
    """The address of a running service; Ctrl-C ends it without a traceback."""
    command = [sys.executable, "-m", "upcl", "serve", str(model_file), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        url = process.stdout.readline().split()[1].rstrip("/")
        urllib.request.urlopen(f"{url}/health", timeout=60).close()
        yield url
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20) == ("", "") and process.returncode == 0


def test_fifty_requests_at_once_are_all_answered(address: str, photo: bytes) -> None:
    import httpx2 as httpx

    def post(_: int) -> int:
        return httpx.post(f"{address}/api/predict", files={"images": ("a.png", photo)}, timeout=60).status_code

    with ThreadPoolExecutor(50) as pool:
        assert list(pool.map(post, range(50))) == [200] * 50


def wait_for(condition: Callable[[], Any]) -> Any:
    until = time.monotonic() + 90
    while not (found := condition()):
        assert time.monotonic() < until, "the page never reached this state"
        time.sleep(0.1)
    return found


DROP = """
const [name, type, content] = arguments, bytes = Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
const data = new DataTransfer(); data.items.add(new File([bytes], name, { type }));
const event = new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true });
document.getElementById('drop').dispatchEvent(event);
"""


@needs_chromium
@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_the_page_classifies_dropped_and_chosen_photos(address: str, photos: Path, tmp_path: Path, width: int) -> None:
    path = photos / "first" / "kind 0" / "3.png"
    with browser(tmp_path / "profile", width) as driver:

        def find(selector: str) -> list[Any]:
            found: list[Any] = driver.find_elements("css selector", selector)
            return found

        def drop(name: str, kind: str, content: bytes) -> None:
            driver.execute_script(DROP, name, kind, base64.b64encode(content).decode())

        driver.get(address)
        wait_for(lambda: len(find("#classes li")) == 6)
        drop("a.png", "image/png", path.read_bytes())
        bars = wait_for(lambda: find(".answer .bar"))
        assert "kind" in bars[0].text and len(find(".near img")) == 3
        drop("x.svg", "image/svg+xml", SVG)
        wait_for(lambda: len(find(".answer .error")) == 1)
        drop("words.jpg", "image/jpeg", b"words")
        wait_for(lambda: len(find(".answer .error")) == 2)
        drop("b.png", "image/png", decompression_bomb())
        wait_for(lambda: len(find(".answer .error")) == 3)
        driver.find_element("css selector", "#file").send_keys(str(path))
        wait_for(lambda: len(find(".answer .bar")) > len(bars))
        assert driver.execute_script("return window.evil") is None, "scripts in images do not run"
        assert [entry for entry in driver.get_log("browser") if "favicon" not in entry["message"]] == []
        assert all(url.startswith(address) for url in requested(driver)), "nothing is loaded from elsewhere"
        assert find("#curve circle")
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
