from __future__ import annotations

import io
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from PIL import Image

from upcl.data.io import image_memory
from upcl.data.io.image_memory import ROW_BYTES, MemoryBudget, decoding_bytes
from upcl.data.io.images import BrokenImageError, open_image, read_image

NUM_PIXELS, ROWS = 40 * 30, 30 * ROW_BYTES

ATTACK = """
import resource, tempfile, threading
from pathlib import Path
import numpy as np
from PIL import Image
from upcl import GrowingClassifier
from upcl.data.io.scan import scan_folder
from upcl.model.server.service import Service, Upload

images = np.random.default_rng(0).integers(0, 256, (8, 8, 8), dtype=np.uint8)
service = Service(GrowingClassifier(epochs=1).fit(images, ["cat", "dog"] * 4).learner_)
folder = Path(tempfile.mkdtemp())
(folder / "cat").mkdir()
Image.fromarray(np.zeros((7000, 7000), np.uint16)).save(folder / "cat" / "deep.png", compress_level=1)
upload = folder / "clear.png"
Image.new("RGBA", (7000, 7000)).save(upload, compress_level=1)
answers = []
threads = [
    threading.Thread(target=lambda: answers.extend(service.predict([Upload("a.png", upload.open("rb"))], top=1)))
    for _ in range(2)
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
report, _ = scan_folder(folder)
assert len(answers) == 2 and not any(answer.error for answer in answers), answers
assert report.sizes == {"7000x7000": 1}, report
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_huge_images_stay_below_a_gigabyte() -> None:
    """Two uploads of 49 million transparent pixels at once, then a 16-bit file of the same size in a folder."""
    done = subprocess.run([sys.executable, "-c", ATTACK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 1000


def encoded(format: str, mode: str = "RGB", **options: Any) -> io.BytesIO:  # noqa: A002
    file = io.BytesIO()
    Image.new(mode, (40, 30)).save(file, format, **options)
    return file


def bytes_per_pixel(file: io.BytesIO) -> float:
    with Image.open(file) as image:
        return (decoding_bytes(image, file, image.size) - image.height * ROW_BYTES) / NUM_PIXELS


@pytest.mark.parametrize(
    ("format", "mode", "options", "expected"),
    [
        ("PNG", "RGB", {}, 4),
        ("PNG", "RGBA", {}, 4),
        ("PNG", "L", {}, 1),
        ("PNG", "P", {"transparency": 0}, 1),
        ("PNG", "I;16", {}, 2),
        ("GIF", "P", {}, 1),
        ("BMP", "RGB", {}, 4),
        ("TIFF", "RGB", {}, 4),
        ("JPEG", "RGB", {}, 4),
        ("JPEG", "CMYK", {}, 4),
        ("JPEG", "L", {}, 1),
        ("JPEG", "RGB", {"progressive": True}, 10),
        ("JPEG", "CMYK", {"progressive": True}, 12),
        ("JPEG", "L", {"progressive": True}, 3),
    ],
)
def test_memory_is_known_from_the_header(
    format: str,  # noqa: A002
    mode: str,
    options: dict[str, Any],
    expected: int,
) -> None:
    assert bytes_per_pixel(encoded(format, mode, **options)) == expected


def test_rows_count_however_short_they_are() -> None:
    file = io.BytesIO()
    Image.new("L", (1, 900)).save(file, "PNG")
    with Image.open(file) as image:
        assert decoding_bytes(image, file, image.size) == 900 * (1 + ROW_BYTES)


def test_files_that_readers_hold_in_memory_count() -> None:
    webp = encoded("WEBP")
    assert bytes_per_pixel(webp) == 16 + len(webp.getvalue()) / NUM_PIXELS
    one_strip = encoded("TIFF", compression="tiff_lzw", strip_size=10**6)
    assert bytes_per_pixel(one_strip) == 4 + 3 + len(one_strip.getvalue()) / NUM_PIXELS


def test_tiff_that_is_turned_while_loading_counts_twice() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert bytes_per_pixel(encoded("TIFF", exif=exif)) == 8


@pytest.mark.parametrize("head", [b"\xff\xd0", b"\x00\x00", b"\xff\xe1\x00\x00"])
def test_jpeg_with_odd_segments_counts_as_the_worst(head: bytes) -> None:
    """A decoy must not make libjpeg's memory look small; nor may it hang the reader."""
    file = encoded("JPEG")
    with Image.open(file) as image:
        odd = io.BytesIO(b"\xff\xd8" + head + file.getvalue()[2:])
        assert decoding_bytes(image, odd, image.size) == 10 * NUM_PIXELS + ROWS


def test_jpeg_in_separate_scans_counts_coefficients() -> None:
    file = encoded("JPEG")
    content = file.getvalue()
    with Image.open(file) as image:
        separate = content.replace(b"\xff\xda\x00\x0c\x03", b"\xff\xda\x00\x08\x01")
        assert separate != content
        assert decoding_bytes(image, io.BytesIO(separate), image.size) == 10 * NUM_PIXELS + ROWS


def test_draft_mode_takes_less_memory() -> None:
    file = encoded("JPEG", progressive=True)
    with Image.open(file) as image:
        full_size = image.size
        image.draft(None, (20, 15))
        assert decoding_bytes(image, file, full_size) == (4 // 4 + 6) * NUM_PIXELS + ROWS // 2


def test_image_that_takes_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upcl.data.io.images.MAX_BYTES", 10 * NUM_PIXELS + ROWS)
    assert read_image(encoded("JPEG", progressive=True)).size == (40, 30)
    with pytest.raises(BrokenImageError, match=r"decoding 40 x 30 pixels of WEBP takes 19,\d+ bytes, more than 12,330"):
        read_image(encoded("WEBP"))


def test_threads_wait_for_memory() -> None:
    budget, now, most, lock = MemoryBudget(100), [0], [0], threading.Lock()

    def work(num: int) -> None:
        with budget.reserve(num):
            with lock:
                now[0] += min(num, 100)
                most[0] = max(most[0], now[0])
            with lock:
                now[0] -= min(num, 100)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, [30, 60, 1, 250, 99, 50] * 50))
    assert most[0] <= 100 and budget.available == 100


def test_budget_is_returned_after_an_error() -> None:
    budget = MemoryBudget(100)
    with pytest.raises(ValueError, match="broken"), budget.reserve(70):
        raise ValueError("broken")
    assert budget.available == 100


def test_images_hold_the_budget_while_they_are_open() -> None:
    file, budget = encoded("PNG"), image_memory.BUDGET
    with open_image(file) as image:
        assert budget.available == budget.total - 4 * NUM_PIXELS - ROWS and image.size == (40, 30)
    assert budget.available == budget.total
    damaged = io.BytesIO(file.getvalue()[:60])
    with pytest.raises(BrokenImageError), open_image(damaged):
        pass
    assert budget.available == budget.total


def test_freed_memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(image_memory, "TRIM_BYTES", 100)
    monkeypatch.setattr(image_memory, "give_back_memory", lambda: calls.append(1))
    budget = MemoryBudget(1000)
    for _ in range(5):
        with budget.reserve(50):
            pass
    assert len(calls) == 2


def test_pixels_are_freed_when_the_image_is_closed() -> None:
    with open_image(io.BytesIO(encoded("PNG").getvalue())) as image:
        pass
    assert np.asarray(image.whole()).size == 0
