from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from upcl.core.progress import Advance, ProgressUnit, logger, report_progress, track


class Recorder:
    """A reporter that records what it is given to show."""

    def __init__(self) -> None:
        self.started: list[tuple[str, int | None, int, ProgressUnit]] = []
        self.amounts: list[int] = []
        self.ended = 0

    @contextmanager
    def __call__(self, description: str, total: int | None, completed: int, unit: ProgressUnit) -> Iterator[Advance]:
        self.started.append((description, total, completed, unit))
        yield self.amounts.append
        self.ended += 1


def test_progress_reaches_the_reporter_inside_the_block_only() -> None:
    recorder = Recorder()
    with report_progress(recorder), track("decoding", 5, completed=2, unit="bytes") as advance:
        advance(1)
        advance(2)
    with track("unseen") as advance:
        advance(1)
    assert recorder.started == [("decoding", 5, 2, "bytes")]
    assert (recorder.amounts, recorder.ended) == ([1, 2], 1)


def test_nested_reporters_are_restored() -> None:
    outer, inner = Recorder(), Recorder()
    with report_progress(outer):
        with report_progress(inner), track("inner"):
            pass
        with track("outer"):
            pass
    assert [row[0] for row in (*inner.started, *outer.started)] == ["inner", "outer"]


def test_library_is_silent_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    with track("decoding", 3) as advance:
        advance(3)
    assert any(isinstance(handler, logging.NullHandler) for handler in logger.handlers)
    assert capfd.readouterr() == ("", "")
