"""Models for tests of what the commands print: a history, but no weights."""

from __future__ import annotations

import io
from typing import Any

import torch

from upcl.cli.safe_console import SafeConsole
from upcl.core.types import Samples
from upcl.model.bundle import Bundle, HistoryEntry, ModelSpec, ModelState

FIRST = HistoryEntry(
    "2026-01-01T10:00:00",
    added=("cat", "dog"),
    images=40,
    seconds=12.0,
    accuracy={"head": 75.0, "nme": 50.0},
    by_class={"cat": 100.0, "dog": 50.0},
)
SECOND = HistoryEntry(
    "2026-01-02T10:00:00",
    added=("[owl]",),
    extra={"dog": 7},
    images=27,
    seconds=20.0,
    accuracy={"head": 80.0, "nme": None},
    by_class={"cat": 90.0, "dog": 60.0, "[owl]": None},
)


def make_bundle(*entries: HistoryEntry, **state: Any) -> Bundle:
    """A model with a history but without weights."""
    empty = Samples(torch.zeros(0, 1, 8, 8, dtype=torch.uint8), torch.zeros(0, dtype=torch.int64))
    spec = ModelSpec("upcl", {}, "small", 1, 8, (0.5,), (0.25,), "20/class")
    classes = tuple(entries[-1].by_class)
    last = ModelState({}, (len(classes),), classes, empty, empty, **state)
    return Bundle(spec, entries, {len(entries) - 1: last}, {"upcl": "0.1.0"})


def rows_of(renderable: Any) -> list[list[str]]:
    """The cells of a printed table, without its header."""
    console = SafeConsole(width=120, record=True, file=io.StringIO())
    console.print(renderable)
    lines = [line for line in console.export_text().splitlines() if "│" in line]
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines]
