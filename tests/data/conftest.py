"""Fixtures of the data tests: a cache of their own, and a recorder of progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from upcl.core.progress import Advance, ProgressUnit, report_progress


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty folder of decoded images; no data root is configured."""
    monkeypatch.setenv("UPCL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("UPCL_DATA", raising=False)
    return tmp_path / "cache" / "decoded"


@dataclass
class Work:
    """One piece of work that reported its progress."""

    description: str
    total: int | None
    unit: ProgressUnit
    amounts: list[int]
    finished: bool = False

    @property
    def completed(self) -> int:
        return sum(self.amounts)


@dataclass
class ProgressRecorder:
    """A reporter that remembers what it was given."""

    work: list[Work] = field(default_factory=list)

    @contextmanager
    def __call__(self, description: str, total: int | None, completed: int, unit: ProgressUnit) -> Iterator[Advance]:
        work = Work(description, total, unit, [completed])
        self.work.append(work)
        yield work.amounts.append
        work.finished = True

    def only(self) -> Work:
        """The only piece of work so far."""
        (work,) = self.work
        return work


@pytest.fixture
def progress() -> Iterator[ProgressRecorder]:
    recorder = ProgressRecorder()
    with report_progress(recorder):
        yield recorder
