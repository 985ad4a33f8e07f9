"""Copies of records with other values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from upcl.research.record import ByReading, Record
from upcl.research.report.load import StoredRun


def alter(record: Record, config: Mapping[str, Any] | None = None, **changes: Any) -> Record:
    """A copy of a record with other fields, and other fields of its config."""
    if config:
        changes["config"] = dataclasses.replace(record.config, **config)
    return record.model_copy(update=changes)


def alter_run(run: StoredRun, config: Mapping[str, Any] | None = None, **changes: Any) -> StoredRun:
    """A copy of a stored run whose record has other fields."""
    return StoredRun(run.folder, alter(run.record, config, **changes))


def with_accuracy(record: Record, value: float, **changes: Any) -> Record:
    """A copy of a record with this A_last of the head."""
    return alter(record, a_last=ByReading[float](head=value, nme=record.a_last.nme), **changes)
