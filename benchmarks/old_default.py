"""The default of `upcl learn` against that of the version before pretrained features, by the README's commands.

    git worktree add /tmp/before 7f77e59
    UPCL_DATA=FOLDER python benchmarks/old_default.py /tmp/before/src     # FOLDER holds tiny-imagenet-200: two hours

Five sets of 20 classes of Tiny-ImageNet, 40 photos each, in updates of 10, 5 and 5 classes, one thread. A row is
printed for each set and version: accuracy on held-out photos, on photos never shown, and seconds of learning.
"""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from learn_photos import NUM_SETS, copy_tiny_imagenet, print_row


def measure(source: Path, lots: list[Path], title: str) -> None:
    """Learn lot after lot with the package in a source folder, and print a row."""
    with tempfile.TemporaryDirectory(prefix="upcl-") as folder:
        environment = {**os.environ, "PYTHONPATH": str(source), "UPCL_CACHE": folder, "OMP_NUM_THREADS": "1"}
        model = str(Path(folder) / "model.upcl")

        def upcl(*arguments: str) -> str:
            command = [sys.executable, "-m", "upcl", *arguments]
            return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

        start = time.monotonic()
        learned = [upcl("learn", str(lot), "--model", model) for lot in lots]
        seconds = time.monotonic() - start
        held_out = re.findall(r"accuracy on \d+ held-out images: ([\d.]+) %", learned[-1])
        answers = csv.DictReader(
            io.StringIO(upcl("predict", "--model", model, "--format", "csv", str(lots[0].parent / "new")))
        )
        right = [answer["name"] == Path(answer["image"]).parent.name for answer in answers]
    print_row(title, (float(held_out[-1]), 100 * sum(right) / len(right), seconds))


if __name__ == "__main__":
    present = Path(__file__).parents[1] / "src"
    for number in range(NUM_SETS):
        with tempfile.TemporaryDirectory(prefix="upcl-") as photos:
            lots = copy_tiny_imagenet(Path(photos), number)
            for title, source in (("new", present), ("before", Path(sys.argv[1]))):
                measure(source, lots, f"set {number}, {title}")
