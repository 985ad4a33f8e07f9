"""The page on which people teach, in a browser: a whole workflow, thousands of photos, and a server that is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.browser import browser, needs_chromium, requested
from tests.model.feature_models import grow, spec
from tests.model.server.test_page import wait_for
from tests.model.studio.taught import needs_photos, teach
from upcl.model.file import load, save
from upcl.model.studio.workspace import Workspace

pytestmark = [needs_chromium, needs_photos, pytest.mark.filterwarnings("ignore::ResourceWarning")]
NUM_PHOTOS = 5000


@contextmanager
def studio(model: Path, port: int = 0) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A running page: its address and its process."""
    command = [sys.executable, "-m", "upcl", "studio", str(model), "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        url = process.stdout.readline().split()[1].rstrip("/")
        urllib.request.urlopen(f"{url}/health", timeout=60).close()
        try:
            yield url, process
        finally:
            process.kill()


class Page:
    """What a person sees and clicks."""

    def __init__(self, driver: Any, url: str) -> None:
        self.driver = driver
        driver.get(url)
        wait_for(lambda: self.find(".class"))

    def find(self, selector: str) -> list[Any]:
        found: list[Any] = self.driver.find_elements("css selector", selector)
        return found

    def texts(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map((found) => found.innerText)"
        found: list[str] = self.driver.execute_script(script, selector)
        return found

    def click(self, selector: str, text: str = "") -> None:
        """Click the first element with a text, wherever it is."""
        script = """
            const found = [...document.querySelectorAll(arguments[0])].find((e) => e.innerText.includes(arguments[1]));
            if (found) found.click();
            return Boolean(found);
        """
        wait_for(lambda: self.driver.execute_script(script, selector, text))

    def click_and_redraw(self, selector: str, text: str = "") -> None:
        """Click, and wait until the view shows something else."""
        self.driver.execute_script("document.querySelector('#view').firstElementChild.dataset.before = ''")
        self.click(selector, text)
        wait_for(lambda: self.texts("#view") and not self.find("#view > [data-before]"))

    def type(self, selector: str, *keys: str) -> None:
        """Type into the first element, even if it is drawn again meanwhile."""
        from selenium.common.exceptions import StaleElementReferenceException

        def typed() -> bool:
            try:
                wait_for(lambda: self.find(selector))[0].send_keys(*keys)
            except StaleElementReferenceException:
                return False
            return True

        wait_for(typed)

    def choose(self, files: list[Path]) -> None:
        self.click("#view button", "Add photos")
        self.find("#files")[0].send_keys("\n".join(map(str, files)))

    def classes(self) -> list[str]:
        return [text.split("\n")[0] for text in self.texts(".class .open")][1:]

    def waiting(self) -> int:
        return int(self.texts(".class .open")[0].split("\n")[1].split()[0].replace(",", ""))

    def teach_class(self, name: str, files: list[Path]) -> None:
        self.find("#new-name")[0].send_keys(f"{name}\n")
        wait_for(lambda: self.texts("#view h2")[:1] == [f"{name} · 0"])
        self.choose(files)
        wait_for(lambda: self.texts("#view h2")[:1] == [f"{name} · {len(files)}"])

    def drop(self, selector: str, paths: list[Path]) -> None:
        """Drop files or folders, as the browser does when a person lets go of the mouse."""
        box = self.find(selector)[0].rect
        data = {"items": [], "files": list(map(str, paths)), "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            point = {"x": box["x"] + box["width"] / 2, "y": box["y"] + 20}
            self.driver.execute_cdp_cmd("Input.dispatchDragEvent", {"type": kind, **point, "data": data})

    def press(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def choose_from_menu(self, name: str, text: str) -> None:
        self.click(f"[data-name='{name}'] summary")
        self.click(f"[data-name='{name}'] details[open] .menu button", text)

    def gone(self) -> int:
        return len(self.find(".tile.gone"))

    def focused(self) -> str:
        found: str = self.driver.execute_script("return document.activeElement.getAttribute('aria-label') || ''")
        return found


def some(folder: Path, num: int, first: int = 0) -> list[Path]:
    return sorted(folder.iterdir())[first : first + num]


@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_a_whole_workflow(photos: Path, tmp_path: Path, width: int) -> None:
    model = tmp_path / "kinds.upcl"
    with studio(model) as (url, _), browser(tmp_path / "profile", width) as driver:
        page = Page(driver, url)
        wait_for(lambda: "Teach a model" in page.texts("#view")[0])  # a first visit explains itself
        for kind in (0, 1):
            page.teach_class(f"kind {kind}", some(photos / "first" / f"kind {kind}", 8))
        page.click(".class .open", "New photos")
        wait_for(lambda: page.texts("#view h2")[:1] == ["New photos · 0"])
        page.choose(some(photos / "first" / "kind 0", 4, first=10))
        wait_for(lambda: page.waiting() == 4 and len(page.find(".tile")) == 4)
        page.click(".tile .open")
        wait_for(lambda: page.find("dialog[open] .answer"))
        page.click("dialog button", "Why this answer?")
        wait_for(lambda: "Bright places" in page.texts("dialog")[0])
        page.click("dialog .answer", "kind 1")
        wait_for(lambda: page.waiting() == 3)
        page.click("#undo")
        wait_for(lambda: page.waiting() == 4)
        page.choose(some(photos / "second" / "kind 3", 6))
        wait_for(lambda: page.waiting() == 10)
        page.click("#view button", "Group similar photos")
        group = wait_for(lambda: page.find(".group input"))[0]
        group.clear()
        group.send_keys("a group\n")
        wait_for(lambda: page.classes() == ["kind 0", "kind 1", "a group"])
        page.click("#tab-review")
        wait_for(lambda: "Classes that need photos" in page.texts("#view")[0])
        page.click("#tab-history")
        wait_for(lambda: len(page.find("#view tr")) == 4)
        page.click(".class .menu button[class=danger]", "")
        wait_for(lambda: page.find("dialog[open]"))
        page.click("dialog .danger")
        wait_for(lambda: page.classes() == ["kind 1", "a group"])
        page.click("[data-download=card]")
        wait_for(lambda: any(address.endswith("/download/card") for address in requested(driver)))
        assert load(model).state.class_names == ["kind 1", "a group"]
        assert [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        assert not page.find(".toast.bad")


def taught(path: Path, photos: Path) -> Path:
    """A model of three classes with eight photos each."""
    teach(path, photos)
    return path


def test_clicks_and_keys_teach_what_they_were_meant_for(photos: Path, tmp_path: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    model = taught(tmp_path / "kinds.upcl", photos)
    with studio(model) as (url, _), browser(tmp_path / "profile") as driver:
        page = Page(driver, url)
        page.choose(some(photos / "first" / "kind 0", 6, first=8))
        wait_for(lambda: len(page.find(".tile")) == 6)
        # the second click comes before the first was learned
        ActionChains(driver).double_click(page.find(".tile [data-act=right]")[0]).perform()
        wait_for(lambda: page.waiting() == 5)
        wait_for(lambda: page.gone())
        assert len(page.find(".tile")) == 6 and page.find(".tile:first-child.gone"), "nothing moves under the pointer"
        page.click(".tile [data-act=none]")
        wait_for(lambda: page.waiting() == 4 and page.gone() == 2)
        assert "✓ none of these" in page.texts(".tile.gone")[1]
        assert len(page.find(".toast button")) == 1, "only the last step can be undone from a message"
        page.click(".toast button", "Undo")
        wait_for(lambda: page.waiting() == 5 and page.gone() == 1)
        page.type(".tile [data-act=right]", Keys.ENTER)
        wait_for(lambda: page.gone() == 2 and page.focused().startswith("Right: "))
        page.press(Keys.ENTER)
        wait_for(lambda: page.gone() == 3 and page.focused().startswith("Right: "))
        page.press(Keys.SHIFT + Keys.TAB + Keys.NULL, Keys.ENTER)  # back to the photo itself
        wait_for(lambda: page.find("dialog[open] .answer"))
        page.click("dialog button", "Delete photo")
        wait_for(lambda: page.texts("dialog h2") == ["Delete 1 photo?"])
        page.press(Keys.ENTER)
        wait_for(lambda: page.waiting() == 2)
        assert len(list((tmp_path / "kinds.photos").glob("*.png"))) == 24 + 5
        page.click("#view button", "Label these next")
        wait_for(lambda: page.texts("#view h2") == ["Label these next"] and len(page.find(".tile")) == 2)
        page.click(".tile [data-act=right]")
        wait_for(lambda: page.waiting() == 1 and page.gone() == 1)
        page.click(".class .open", "New photos")
        wait_for(lambda: page.texts("#view h2") == ["New photos · 1"] and page.find(".tile [data-act=other]"))
        name = page.texts(".tile [data-act=other]")[0]
        page.click(".tile [data-act=other]")
        wait_for(lambda: page.waiting() == 0 and page.texts(".tile.gone .says") == [f"✓ {name}"])
        assert not page.find(".toast.bad")


def test_classes_are_renamed_merged_split_and_rolled_back(photos: Path, tmp_path: Path) -> None:
    model = taught(tmp_path / "kinds.upcl", photos)
    with studio(model) as (url, _), browser(tmp_path / "profile") as driver:
        page = Page(driver, url)
        page.choose_from_menu("kind 0", "Rename")
        page.type("dialog[open] input", "zero\n")
        wait_for(lambda: page.classes()[0] == "zero")
        page.choose_from_menu("kind 1", "Merge")
        page.type("dialog[open] select", "zero")
        page.click("dialog button", "Merge")
        wait_for(lambda: page.classes() == ["zero", "kind 2"])
        page.choose_from_menu("zero", "Split")
        wait_for(lambda: page.texts("#view h2") == ["Split “zero”"] and page.find(".group"))
        page.click_and_redraw("#view button", "Fewer groups")
        num = len(page.find(".group"))
        page.click(".group button", "Split")
        wait_for(lambda: len(page.find(".group")) == num + 1)
        page.find(".group input")[0].clear()
        page.find(".group input")[0].send_keys("one\n")
        wait_for(lambda: page.classes() == ["zero", "kind 2", "one"])
        page.click("#tab-history")
        wait_for(lambda: len(page.find("#view tr")) == 6)
        page.click("#view button", "Roll back to this")  # to before the split
        page.click("dialog .danger")
        wait_for(lambda: page.classes() == ["zero", "kind 2"])
        page.click("#tab-review")
        wait_for(lambda: "Near-duplicates" in page.texts("#view")[0])
        num = len(page.find(".pair"))
        page.click(".pair button", "Keep both")
        wait_for(lambda: len(page.find(".pair")) == num - 1)
        for kind in ("model", "answers", "card"):
            page.click(f"[data-download={kind}]")
        asked: list[str] = []

        def num_downloads() -> int:
            asked.extend(requested(driver))
            return sum("/download/" in url for url in asked)

        wait_for(lambda: num_downloads() == 3)
        assert not page.find(".toast.bad")


def test_photos_arrive_by_drops_camera_other_tabs_and_bad_connections(photos: Path, tmp_path: Path) -> None:
    model = taught(tmp_path / "kinds.upcl", photos)
    with studio(model) as (url, _), browser(tmp_path / "profile") as driver:
        page = Page(driver, url)
        page.drop("#view", some(photos / "second" / "kind 3", 2))
        wait_for(lambda: page.waiting() == 2 and len(page.find(".tile")) == 2)
        page.drop("aside h2", [photos / "second"])
        kinds = {folder.name for folder in (photos / "second").iterdir()}
        wait_for(lambda: kinds <= set(page.classes()) and not page.find(".over"))
        page.click("#view button", "Camera")
        wait_for(lambda: page.find("dialog video") and page.find("dialog .main:enabled"))
        page.click("dialog button", "Take a picture")
        wait_for(lambda: "(1)" in page.texts("dialog .main")[0])
        page.click("dialog button", "Close")
        wait_for(lambda: page.waiting() == 1)  # the two others were in the folder, too
        first = driver.current_window_handle
        driver.switch_to.new_window("tab")
        other = Page(driver, url)
        other.find("#new-name")[0].send_keys("from the other tab\n")
        wait_for(lambda: "from the other tab" in other.classes())
        driver.close()
        driver.switch_to.window(first)
        wait_for(lambda: page.classes()[-1] == "from the other tab")
        offline = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
        wait_for(lambda: page.find("#offline")[0].is_displayed())
        page.click(".class .open", "New photos")
        driver.execute_cdp_cmd("Network.emulateNetworkConditions", {**offline, "offline": False})
        wait_for(lambda: not page.find("#offline")[0].is_displayed())
        scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
        style = "return getComputedStyle(document.body).backgroundColor"
        wait_for(lambda: driver.execute_script(style) == "rgb(20, 24, 31)")


def test_a_server_that_is_killed_in_the_middle_loses_nothing(photos: Path, tmp_path: Path) -> None:
    model, files = tmp_path / "kinds.upcl", some(photos / "first" / "kind 0", 20)
    with browser(tmp_path / "profile") as driver:
        with studio(model) as (url, process):
            page = Page(driver, url)
            page.teach_class("kind 1", some(photos / "first" / "kind 1", 6))
            page.choose_from_menu("kind 1", "Add photos")
            page.find("#files")[0].send_keys("\n".join(map(str, files)))
            wait_for(lambda: page.driver.execute_script("return document.getElementById('bar').value") >= 8)
            process.send_signal(signal.SIGKILL)
            process.wait()
            wait_for(lambda: page.find("#offline")[0].is_displayed())
        with studio(model, port=int(url.rsplit(":", 1)[1])):
            wait_for(lambda: not page.find("#offline")[0].is_displayed())
            wait_for(lambda: page.texts("#view h2")[:1] == ["kind 1 · 26"])
    assert load(model).state.class_names == ["kind 1"]


SLOW_PHOTOS = """
const real = window.fetch;
window.fetch = async (path, ...rest) => {
  const response = await real(path, ...rest);
  if (path.endsWith("/photos")) await new Promise((resolve) => setTimeout(resolve, 1000));
  return response;
};
"""


def test_a_slow_answer_does_not_replace_what_was_opened_meanwhile(photos: Path, tmp_path: Path) -> None:
    with studio(tmp_path / "kinds.upcl") as (url, _), browser(tmp_path / "profile") as driver:
        page = Page(driver, url)
        driver.execute_script(SLOW_PHOTOS)
        page.choose(some(photos / "first" / "kind 0", 4))
        wait_for(lambda: page.find("#progress")[0].is_displayed())
        page.click("#tab-history")
        wait_for(lambda: page.waiting() == 4 and not page.find("#progress")[0].is_displayed())
        time.sleep(1.5)  # longer than the list of photos takes
        assert page.texts("#view h2") == ["Accuracy over time"]


def test_thousands_of_photos_are_drawn_only_in_sight(tmp_path: Path) -> None:
    model = tmp_path / "many.upcl"
    save(grow(None, {"ant": range(8), "bull": range(8)}, None, spec("ncm")), model)
    write_many(Workspace(tmp_path / "many.photos"))
    with studio(model) as (url, _), browser(tmp_path / "profile") as driver:
        page = Page(driver, url)
        wait_for(lambda: page.waiting() == NUM_PHOTOS and page.find(".tile"))
        assert len(page.find(".tile")) < 100
        driver.execute_script("document.querySelector('.grid').scrollTop = 1e9")
        wait_for(lambda: any(f"{NUM_PHOTOS - 1}.bmp" in text for text in titles(page)))
        assert len(page.find(".tile")) < 100


def titles(page: Page) -> list[str]:
    script = "return [...document.querySelectorAll('.tile small')].map((found) => found.title)"
    found: list[str] = page.driver.execute_script(script)
    return found


def write_many(workspace: Workspace) -> None:
    """Photos of a few pixels, all different, written without the care that a crash would need."""
    import hashlib
    import io
    import json

    import numpy as np
    from PIL import Image

    workspace.folder.mkdir()
    names = []
    for number in range(NUM_PHOTOS):
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "BMP")
        digest = hashlib.sha256(buffer.getvalue()).hexdigest()[:16]
        (workspace.folder / f"{digest}.bmp").write_bytes(buffer.getvalue())
        names.append(json.dumps([digest, f"{number}.bmp"]))
    (workspace.folder / "names.jsonl").write_text("\n".join(names) + "\n")
