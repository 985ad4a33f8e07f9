from __future__ import annotations

import pytest

from upcl.research.bench import processes
from upcl.research.bench.processes import measure_processes


def test_processes_and_shards_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "BATCH", 8)
    rows = list(measure_processes(repeats=1))
    assert [row.group for row in rows] == ["processes", "processes"] and all(row.value > 0 for row in rows)
    assert "2 processes" in rows[0].ours and "2 threads" in rows[0].other and "no shards" in rows[1].other
