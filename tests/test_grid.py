"""Grids: many runs from one file, skipped when done, resumed when broken, reported when failed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from upcl.cli.rendering import grid_table
from upcl.core.errors import UserError
from upcl.research.estimate import estimates
from upcl.research.executor import ExecutorOptions, run_grid
from upcl.research.grid import make_grid, prepare, seconds_left

CPU = torch.device("cpu")
TINY: dict[str, Any] = {"data": "synthetic:classes=4,train=8,test=4", "tasks": 2, "epochs": 2, "memory": "4"}


def write(path: Path, **vary: Any) -> Path:
    path.write_text(json.dumps({"title": "tiny", "same": TINY, "vary": vary}))  # JSON is YAML
    return path


def command(file: Path, out: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "upcl", "grid", str(file), "--out", str(out), *words]


def records(out: Path) -> dict[str, Any]:
    return {p.parent.name: json.loads(p.read_text())["weights_sha256"] for p in out.glob("*/record.json")}


def test_every_combination_is_a_run() -> None:
    grid = make_grid({"same": TINY, "vary": {"method": ["upcl", "icarl"], "seed": [0, 1]}}, "x.yaml")
    assert [job.name for job in grid.jobs] == ["upcl-seed0", "upcl-seed1", "icarl-seed0", "icarl-seed1"]
    assert grid.jobs[1].request.seed == 1 and grid.jobs[1].request.tasks == 2
    options = make_grid(
        {"same": {**TINY, "options": {"recipe.lr": 0.05}}, "vary": {"options": [{}, {"tau": 0.1}]}}, "x"
    )
    assert [job.request.options for job in options.jobs] == [{"recipe.lr": 0.05}, {"recipe.lr": 0.05, "tau": 0.1}]
    assert [job.name for job in options.jobs] == ["default", "tau=0.1"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"vari": {}}, "did you mean vary"),
        ({"vary": {"metod": ["upcl"]}}, "did you mean method"),
        ({"vary": {"seed": 3}}, "must be a list"),
        ({"vary": {"seed": [1, 1]}}, "two runs are the same"),
        ({"same": ["upcl"]}, "must hold keys and values"),
        ({"vary": {"seed": [-1]}}, "seed"),
    ],
)
def test_wrong_files_say_what_is_wrong(content: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        make_grid(content, "x.yaml")


def test_done_is_skipped_failed_is_reported_and_others_go_on(tmp_path: Path) -> None:
    file = write(tmp_path / "tiny.yaml", method=["finetune", "nosuch", "upcl"])
    first = subprocess.run(command(file, tmp_path / "out", "--jobs", "2"), capture_output=True, text=True)
    assert first.returncode == 1 and "error: nosuch: unknown method 'nosuch'" in first.stderr
    assert {name.partition("-")[0] for name in records(tmp_path / "out")} == {"finetune", "upcl"}
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").glob("*/record.json")}
    again = subprocess.run(command(file, tmp_path / "out"), capture_output=True, text=True)
    assert "upcl: done before" in again.stdout and again.returncode == 1
    assert {p: p.stat().st_mtime_ns for p in before} == before
    changed = make_grid({"same": {**TINY, "epochs": 3}, "vary": {"method": ["upcl"]}}, "x")
    assert prepare(changed, tmp_path / "out", None)[0].status == "waiting", "a changed grid has runs of its own"


def test_a_stopped_grid_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    file = tmp_path / "tiny.yaml"
    file.write_text(json.dumps({"same": {**TINY, "epochs": 40}, "vary": {"method": ["finetune", "upcl"]}}))
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert subprocess.run(command(file, whole), capture_output=True).returncode == 0
    process = subprocess.Popen(command(file, broken), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not list(broken.glob("finetune*/events.jsonl")) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "stopped" in said
    assert not any("upcl" in line and str(broken) in line for line in _processes())
    assert subprocess.run(command(file, broken), capture_output=True).returncode == 0
    assert records(whole) == records(broken) and len(records(whole)) == 2


def _processes() -> list[str]:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [line for line in lines if "train" in line]


def test_the_time_left_and_a_dry_run(tmp_path: Path) -> None:
    file = write(tmp_path / "tiny.yaml", method=["upcl", "icarl"], seed=[0, 1])
    told = subprocess.run(
        command(file, tmp_path / "out", "--dry-run"),
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "120"},
    )
    assert told.returncode == 0 and "4 runs left" in told.stdout and not (tmp_path / "out").exists()
    wrong = write(tmp_path / "wrong.yaml", method=["upcl", "icarl"], seed=[0, 1], options=[{"margin": "none"}])
    told = subprocess.run(command(wrong, tmp_path / "out", "--dry-run"), capture_output=True, text=True)
    assert told.returncode == 1 and told.stderr.count("error: ") == 1, "told once, not by every run"
    rows = prepare(make_grid({"same": TINY, "vary": {"seed": [0, 1]}}, "x"), tmp_path / "out", None)
    assert seconds_left(rows, 1) is None
    rows[0].seconds, rows[0].share, rows[0].status = 10.0, 0.5, "running"
    assert seconds_left(rows, 1) == pytest.approx(30.0)
    rows[0].begun = 0.4  # resumed: only a tenth of it was done in these ten seconds
    assert seconds_left(rows, 1) == pytest.approx(150.0)
    rows[0].status = "waiting"
    assert all(estimate and estimate.seconds > 0 and estimate.disk > 1000 for estimate in estimates(rows, None, CPU))


def test_an_oracle_is_estimated_with_all_its_images(tmp_path: Path) -> None:
    same = {**TINY, "data": "synthetic:classes=8,train=8,test=1", "tasks": 8}
    rows = prepare(make_grid({"same": same, "vary": {"method": ["joint", "finetune"]}}, "x"), tmp_path, None)
    joint, finetune = (estimate.disk for estimate in estimates(rows, None, CPU) if estimate)
    assert joint - finetune >= 8 * 8 * 3 * 8 * 8


def test_a_long_table_shows_what_runs_now(tmp_path: Path) -> None:
    rows = prepare(make_grid({"same": TINY, "vary": {"seed": list(range(60))}}, "x"), tmp_path, None)
    for row in rows[:40]:
        row.status, row.seconds, row.share = "done", 5.0, 1.0
    rows[40].status = "running"
    console = Console(width=100, record=True)
    console.print(grid_table(rows, 1, most=10))
    told = console.export_text()
    assert "60 runs: 1 running, 19 waiting, 40 done" in told and "about 0:01:40 left" in told
    assert "seed40" in told and "seed0 " not in told and len(told.splitlines()) < 20


def test_a_run_that_dies_is_named_with_its_last_words(tmp_path: Path) -> None:
    grid = make_grid({"same": {**TINY, "options": {"recipe.lr": 1e30}}, "vary": {"method": ["upcl"]}}, "x")
    rows = prepare(grid, tmp_path, None)
    run_grid(rows, ExecutorOptions(tmp_path), lambda _: None)
    assert rows[0].status == "failed" and "exit 1" in rows[0].error and ".log" in rows[0].error
