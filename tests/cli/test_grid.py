from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.cli.conftest import Invoke
from upcl.cli.grid import estimate_table, grid_table, live_table
from upcl.research import executor
from upcl.research.estimate import CostEstimate
from upcl.research.grid import GridRun, make_grid, prepare

TINY: dict[str, Any] = {"data": "synthetic:classes=4,train=4,test=2", "tasks": 2, "memory": "4", "epochs": 1}


def write(path: Path, **vary: list[Any]) -> str:
    path.write_text(json.dumps({"title": "tiny runs", "about": "A test.", "same": TINY, "vary": vary}))
    return str(path)


def make_runs(folder: Path, num: int) -> list[GridRun]:
    return prepare(make_grid({"same": TINY, "vary": {"seed": list(range(num))}}, "x"), folder, None)


def text_of(*parts: Any, width: int = 80) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(*parts, sep="\n")
    return console.export_text()


def test_grid_runs_what_is_left_and_exits_with_1_if_a_run_failed(tmp_path: Path, invoke: Invoke) -> None:
    file = write(tmp_path / "tiny.yaml", method=["finetune", "nosuch"])
    first = invoke("grid", file)
    assert first.exit_code == 1
    assert first.stdout.splitlines()[0] == "tiny runs: 2 runs. A test."
    assert "finetune: done\n" in first.stdout
    assert "2 runs: 1 failed, 1 done" in first.stdout
    assert first.stderr.splitlines()[-1].startswith("error: nosuch: unknown method 'nosuch'")
    (record,) = (tmp_path / "runs" / "tiny").glob("*/record.json")
    again = invoke("grid", file)
    assert "finetune: done before\n" in again.stdout
    assert "│ 100%" in again.stdout
    assert f"{json.loads(record.read_text())['a_last']['head']:.1f}" in again.stdout


def test_dry_run_estimates_and_writes_nothing(tmp_path: Path, invoke: Invoke) -> None:
    file = write(tmp_path / "tiny.yaml", method=["upcl", "finetune"], seed=[0, 1])
    done = invoke("grid", file, "--dry-run")
    assert done.exit_code == 0, done.stderr
    assert "4 runs left: about " in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


def test_an_error_of_many_runs_is_reported_once(tmp_path: Path, invoke: Invoke) -> None:
    file = write(tmp_path / "wrong.yaml", method=["icarl"], seed=[0, 1, 2, 3, 4], options=[{"margin": "none"}])
    done = invoke("grid", file, "--dry-run")
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "error: icarl-seed0-margin=none, icarl-seed1-margin=none, icarl-seed2-margin=none and 2 more"
    )
    assert "0 runs left" in done.stdout


def test_a_long_table_lists_the_most_urgent_runs(tmp_path: Path) -> None:
    runs = make_runs(tmp_path, 60)
    for run in runs[:40]:
        run.status, run.seconds, run.share = "done", 5.0, 1.0
    runs[40].status = "running"
    text = text_of(grid_table(runs, 1, max_rows=10))
    assert "60 runs: 1 running, 19 waiting, 40 done" in text
    assert "about 0:01:40 left" in text
    assert "seed40" in text and "seed0 " not in text
    assert len(text.splitlines()) < 20
    assert max(map(len, text.splitlines())) <= 80


def test_changes_are_printed_once_without_a_terminal(tmp_path: Path) -> None:
    runs, console = make_runs(tmp_path, 2), Console(width=80, file=io.StringIO(), record=True)
    with live_table(console, 1) as on_change:
        on_change(runs)
        on_change(runs)
        runs[0].status = "running"
        on_change(runs)
    lines = console.export_text().splitlines()
    assert lines[:3] == ["seed0: waiting", "seed1: waiting", "seed0: running"]
    assert "2 runs: 1 running, 1 waiting" in lines[3]


def test_the_table_is_refreshed_in_place_on_a_terminal(tmp_path: Path) -> None:
    runs = make_runs(tmp_path, 2)
    console = Console(width=80, height=30, file=io.StringIO(), force_terminal=True)
    with live_table(console, 1) as on_change:
        runs[0].status = "running"
        on_change(runs)
        assert isinstance(console.file, io.StringIO)
        shown = console.file.getvalue()
    assert "2 runs: 1 running, 1 waiting" in shown
    assert "seed0: running" not in shown


def test_estimates_are_summed(tmp_path: Path) -> None:
    runs = make_runs(tmp_path, 3)
    runs[1].status = "done before"
    table = estimate_table(runs, [CostEstimate(60, 2_000_000), None, CostEstimate(30, 1_000_000)], jobs=2)
    text = text_of(table)
    assert "2 runs left: about 0:01:30, 3 MB" in text
    assert ["seed0", "waiting", "0:01:00", "2", "MB"] in [line.replace("│", "").split() for line in text.splitlines()]
    assert ["seed1", "done", "before"] in [line.replace("│", "").split() for line in text.splitlines()]


def test_interrupted_grid_describes_how_to_continue(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(executor, "run_grid", interrupt)
    done = invoke("grid", write(tmp_path / "tiny.yaml", seed=[0]))
    assert done.exit_code == 130
    assert done.stderr == "Interrupted. Progress is saved; rerun the same command to continue.\n"
