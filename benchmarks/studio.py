"""How long a person waits on the page of `upcl studio`, measured in headless Chromium.

    UPCL_DATA=FOLDER python -m benchmarks.studio     # from the repository; FOLDER holds tiny-imagenet-200: five minutes

Photos of Tiny-ImageNet, EfficientNet-Lite0, 50 classes and 2,000 photos; for scrolling, 5,000 photos of a few pixels.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from tests.browser import browser, requested
from tests.model.feature_models import grow, spec
from tests.model.server.test_page import wait_for
from tests.model.server.test_studio_page import Page, studio, write_many
from upcl.model.file import save
from upcl.model.learner import Learner
from upcl.model.photo_features import photo_digest
from upcl.model.studio.workspace import Workspace

NUM_CLASSES, NUM_PHOTOS, NUM_CORRECTIONS = 50, 40, 10
PAUSE = 12  # seconds between corrections
PAGE_FILES = Path(__file__).parents[1] / "src/upcl/model/server/studio"
FRAMES = """
const done = arguments[0], grid = document.querySelector(".grid"), times = [];
let last = performance.now();
function frame(now) {
  times.push(now - last); last = now; grid.scrollTop += 120;
  if (times.length < 240) requestAnimationFrame(frame); else done(times.slice(1));
}
requestAnimationFrame(frame);
"""
EXPORTED = """
const entries = performance.getEntriesByType("resource");
return entries.some((entry) => entry.name.endsWith("/download/onnx") && entry.responseEnd > 0);
"""
CORRECTION = """
const [heading, done] = arguments, view = document.querySelector("#view"), start = performance.now();
const observer = new MutationObserver(() => {
  if (view.querySelector("h2")?.textContent !== heading) return;
  observer.disconnect();
  requestAnimationFrame(() => done((performance.now() - start) / 1000));
});
observer.observe(view, { childList: true, subtree: true, characterData: true });
document.querySelector("dialog[open] form button").click();
"""


def copy_photos(root: Path) -> Path:
    """Copy 40 photos of 50 classes to learned/CLASS, and 40 of another class to new."""
    source = Path(os.environ["UPCL_DATA"]) / "tiny-imagenet-200"
    for number, wnid in enumerate((source / "wnids.txt").read_text().split()[: NUM_CLASSES + 1]):
        folder = root / "learned" / wnid if number < NUM_CLASSES else root / "new"
        folder.mkdir(parents=True)
        for photo in sorted((source / "train" / wnid / "images").iterdir())[:NUM_PHOTOS]:
            shutil.copy(photo, folder)
    return root


def measure_teaching(root: Path) -> None:
    """From choosing photos to the first answer, and from a correction to the changed answer."""
    learner = Learner(root / "model.upcl").learn(root / "learned")
    target = learner.classes[0]
    with studio(root / "model.upcl") as (url, _), browser(root / "profile") as driver:
        page = Page(driver, url)
        wait_for(lambda: page.texts("#view h2") == ["New photos · 0"])
        start = time.monotonic()
        page.choose(sorted((root / "new").iterdir()))
        wait_for(lambda: page.texts("#view h2") == [f"New photos · {NUM_PHOTOS}"] and page.find(".tile"))
        print(f"{NUM_PHOTOS} photos chosen to answers shown: {time.monotonic() - start:.1f} s", flush=True)
        seconds = []
        for number in range(NUM_CORRECTIONS):
            time.sleep(PAUSE)  # a person looks; the last step is settled meanwhile
            page.click(".tile:not(.gone) .open")
            wait_for(lambda: page.find("dialog[open] form input"))
            page.find("dialog[open] form input")[0].send_keys(target)
            seconds.append(driver.execute_async_script(CORRECTION, f"New photos · {NUM_PHOTOS - number - 1}"))
        print(f"correction to changed answers: median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s")
        page.click(".tile:not(.gone) .open")
        wait_for(lambda: page.find("dialog[open] form input"))
        page.find("dialog[open] form input")[0].send_keys("a new class")
        new = driver.execute_async_script(CORRECTION, f"New photos · {NUM_PHOTOS - NUM_CORRECTIONS - 1}")
        print(f"photo of a new class to changed answers: {new:.2f} s")


def measure_first_visit(root: Path) -> None:
    """Teach five classes from a folder of mixed photos, correct an answer, add a class and export: machine time."""
    source = Path(os.environ["UPCL_DATA"]) / "tiny-imagenet-200"
    photos = {
        wnid: sorted((source / "train" / wnid / "images").iterdir())[:30]
        for wnid in (source / "wnids.txt").read_text().split()[:6]
    }
    *five, sixth = photos
    with studio(root / "model.upcl") as (url, _), browser(root / "profile") as driver:
        page, start = Page(driver, url), time.monotonic()
        page.choose([photo for wnid in five for photo in photos[wnid][:20]])
        wait_for(lambda: page.waiting() == 100)
        page.click("#view button", "Group similar photos")
        groups = wait_for(lambda: page.find(".group"))
        names = {digest: wnid for wnid, paths in photos.items() for digest in map(photo_digest, paths)}
        for group in groups:  # each is named after the class of most of its photos, and the others are left out
            script = (
                "return [...arguments[0].querySelectorAll('.thumbs img')].map((found) => found.src.split('/').at(-1))"
            )
            shown = [names[digest] for digest in driver.execute_script(script, group)]
            name = max(sorted(set(shown)), key=shown.count)
            for thumb, found in zip(group.find_elements("css selector", ".thumbs button"), shown, strict=True):
                if found != name:
                    driver.execute_script("arguments[0].click()", thumb)
            field = group.find_element("css selector", "input")
            field.clear()
            field.send_keys(name + "\n")
            wait_for(partial(left, page, group))
        classes = len(page.classes())
        page.click(".class .open", "New photos")
        wait_for(lambda: page.find(".tile:not(.gone)"))
        page.click(".tile:not(.gone) .open")
        wait_for(lambda: page.find("dialog[open] .answer"))
        waiting = page.waiting()
        page.click("dialog .answer", "")
        wait_for(lambda: page.waiting() == waiting - 1)
        page.teach_class(sixth, photos[sixth][:20])
        page.click("[data-download=onnx]")
        wait_for(lambda: any("/download/onnx" in address for address in requested(driver)))
        wait_for(lambda: driver.execute_script(EXPORTED))
        seconds = time.monotonic() - start
    print(f"first visit: {len(groups)} groups, {classes} classes and one more, {seconds:.0f} s of machine time")


def left(page: Page, group: Any) -> bool:
    """Whether a group was taught."""
    return group not in page.find(".group")


def measure_scrolling(root: Path) -> None:
    """Milliseconds between two frames while 5,000 photos scroll by."""
    save(grow(None, {"ant": range(8), "bull": range(8)}, None, spec("ncm")), root / "many.upcl")
    write_many(Workspace(root / "many.photos"))
    with studio(root / "many.upcl") as (url, _), browser(root / "profile") as driver:
        page = Page(driver, url)
        wait_for(lambda: page.find(".tile"))
        times = sorted(driver.execute_async_script(FRAMES))
    middle, late = times[len(times) // 2], times[int(0.95 * len(times))]
    print(f"between frames while scrolling: median {middle:.0f} ms, 95 % below {late:.0f} ms")


if __name__ == "__main__":
    print(f"page: {sum(path.stat().st_size for path in PAGE_FILES.iterdir()) / 1000:.0f} KB in all")
    for measure in (measure_first_visit, measure_scrolling, measure_teaching):
        with tempfile.TemporaryDirectory(prefix="upcl-") as folder:
            measure(copy_photos(Path(folder)) if measure is measure_teaching else Path(folder))
