from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke
from upcl.core.timing import Measurement
from upcl.research import bench


def measure(repeats: int) -> Iterator[Measurement]:
    yield Measurement("parts", f"{repeats} rounds", "ours", "plain", 2.0, 1.0, 3.0, "x", "at least", 4.0)
    yield Measurement("parts", "faster", "ours", "plain", 5.0, 5.0, 5.0, "x", "at least", 4.0)
    yield Measurement("steps", "untargeted", "", "", 7.0, 7.0, 7.0, "ms")


def test_bench_prints_a_table_and_writes_json(tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "GROUPS", {"parts": measure})
    monkeypatch.setattr("upcl.model.bench.measure_photos", lambda _: iter(()))
    done = invoke("bench", "--repeats", "3", "--json", "bench.json", columns=120)
    assert done.exit_code == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    assert rows == [
        ["3 rounds", "ours / plain", "2.00x (1.00 to 3.00)", "at least 4", "missed"],
        ["faster", "ours / plain", "5.00x", "at least 4", "met"],
        ["untargeted", "", "7.00ms", "", ""],
    ]
    written = json.loads((tmp_path / "bench.json").read_text())
    assert [row["met"] for row in written] == [False, True, None]


def test_only_chosen_groups_are_measured(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: int) -> Iterator[Measurement]:
        raise AssertionError

    monkeypatch.setattr(bench, "GROUPS", {"steps": never, "parts": measure})
    assert invoke("bench", "--only", "parts", "--repeats", "1").exit_code == 0
