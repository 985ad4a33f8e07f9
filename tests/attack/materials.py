"""What attacks need: photos, models and grids, made once."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.model import photos
from tests.model.feature_models import NAMES, grow
from upcl.model.file import save

from .trial import Verdict, command, expect, run_forked

STREAM = ["--data", "synthetic:classes=4,train=6,test=2", "--tasks", "2", "--memory", "4", "--epochs", "2"]
GRID = """
title: two
same: {data: "synthetic:classes=4,train=6,test=2", tasks: 2, memory: "4", epochs: 1}
vary: {method: [finetune, icarl]}
"""


def learn_words(folder: str, method: str) -> list[str]:
    """Words of a command that learns a folder with this method within a second."""
    options = ["--method", method, "--backbone", "small", "--epochs", "1", "--max-forgetting", "100"]
    return ["learn", folder, "--model", "m.upcl", *options, "--memory", "2/class"]


def write_photos(folder: Path) -> None:
    """Folders `first`, `second` and `extra` of small photos."""
    photos.write_photos(folder)


def write_grid(folder: Path, methods: Sequence[str]) -> None:
    """A grid of short runs, one of each method."""
    (folder / "grid.yaml").write_text(GRID.replace("finetune, icarl", ", ".join(methods)))


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="upcl-attack-")


@functools.cache
def make_features_model() -> Path:
    """A model on features of photos, in closed form."""
    path = Path(_folder().name) / "features.upcl"
    save(grow(None, {name: range(6) for name in NAMES}, {name: range(6, 8) for name in NAMES}), path)
    return path


@functools.cache
def make_model(method: str) -> Path:
    """A model of three classes of small photos, learned with this method."""
    folder = Path(_folder().name) / f"model-{method}"
    folder.mkdir()
    write_photos(folder)
    ended = run_forked(command(*learn_words("first", method)), folder)
    expect(ended.verdict() is Verdict.RIGHT, ended.output)
    return folder / "m.upcl"


@functools.cache
def make_run() -> Path:
    """The folder of a finished run of iCaRL."""
    folder = Path(_folder().name) / "run"
    folder.mkdir()
    ended = run_forked(command("train", "icarl", *STREAM, "--save-seconds", "0", "--out", "run"), folder)
    expect(ended.verdict() is Verdict.RIGHT, ended.output)
    return folder / "run"
