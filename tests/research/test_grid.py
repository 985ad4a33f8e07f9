from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import torch

from upcl.core.errors import UserError
from upcl.research.grid import make_grid, prepare, read_grid, seconds_left

CPU = torch.device("cpu")
TINY: dict[str, Any] = {"data": "synthetic:classes=4,train=8,test=4", "tasks": 2, "epochs": 2, "memory": "4"}


def test_every_combination_is_a_run(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(
        "title: tiny\nsame: {data: digits, tasks: 2}\nvary: {method: [upcl, icarl], seed: [0, 1]}\n"
    )
    grid = read_grid(tmp_path / "grid.yaml")
    assert grid.title == "tiny"
    assert [job.name for job in grid.jobs] == ["upcl-seed0", "upcl-seed1", "icarl-seed0", "icarl-seed1"]
    assert [(job.request.method, job.request.seed, job.request.tasks) for job in grid.jobs[1:3]] == [
        ("upcl", 1, 2),
        ("icarl", 0, 2),
    ]


def test_options_are_merged_and_name_the_run() -> None:
    grid = make_grid({"same": {**TINY, "options": {"recipe.lr": 0.05}}, "vary": {"options": [{}, {"tau": 0.1}]}}, "x")
    assert [job.request.options for job in grid.jobs] == [{"recipe.lr": 0.05}, {"recipe.lr": 0.05, "tau": 0.1}]
    assert [job.name for job in grid.jobs] == ["default", "tau=0.1"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"vari": {}}, "did you mean vary"),
        ({"vary": {"metod": ["upcl"]}}, "did you mean method"),
        ({"vary": {"seed": 3}}, "must be a list"),
        ({"vary": {"seed": [1, 1]}}, "two runs are identical"),
        ({"same": ["upcl"]}, "must hold keys and values"),
        ({"vary": {"seed": [-1]}}, "seed"),
        ({"same": {"options": 3}}, "'options' must hold keys and values"),
        ({"same": {"options": {1: 2}}}, "options: Input should be a valid string"),
        ({"vary": {"options": [{}, 3]}}, "'options' must hold keys and values"),
        ({"same": {1: 2}}, "'same' must hold keys and values"),
        ({"vary": {1: [2]}}, "'vary' must hold keys and values"),
        ({"vary": {"seed": list(range(200)), "order_seed": list(range(200))}}, "more than 10,000 runs"),
        ({"more": {"seed": [1]}}, "'more' must be a list"),
        ({"more": [3]}, "'more' must hold keys and values"),
        ({"more": [{"seed": 1}]}, "'seed' under 'more' must be a list"),
        ({"more": [{"sed": [1]}]}, "did you mean seed"),
        ({"vary": {"seed": [0]}, "more": [{"seed": [0]}]}, "two runs are identical"),
        ({"same": {"data": ["digits"]}}, "data must be a name"),
        ({"same": {"method": date(2001, 1, 1)}}, "method must be a name"),
    ],
)
def test_wrong_files_are_refused_with_the_reason(content: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_grid(content, "x.yaml")


def test_more_replaces_lists_and_adds_runs() -> None:
    vary = {"seed": [0], "order_seed": [1993], "method": ["upcl", "icarl"]}
    grid = make_grid(
        {"same": TINY, "vary": vary, "more": [{"seed": [1, 2], "order_seed": [1], "method": ["upcl"]}]}, "x"
    )
    chosen = [(job.request.seed, job.request.order_seed, job.request.method_name) for job in grid.jobs]
    assert chosen == [(0, 1993, "upcl"), (0, 1993, "icarl"), (1, 1, "upcl"), (2, 1, "upcl")]


def test_folders_are_named_after_the_config(tmp_path: Path) -> None:
    def folders(**same: Any) -> list[Path]:
        grid = make_grid({"same": {**TINY, **same}, "vary": {"method": ["upcl", "nosuch"]}}, "x")
        return [run.folder for run in prepare(grid, tmp_path, None)]

    assert folders() == folders()
    assert folders()[0] != folders(epochs=3)[0], "an edited grid gets runs of its own"
    runs = prepare(make_grid({"same": TINY, "vary": {"method": ["upcl", "nosuch"]}}, "x"), tmp_path, None)
    assert [run.status for run in runs] == ["waiting", "failed"]
    assert "unknown method 'nosuch'" in runs[1].error


def test_remaining_time_follows_the_pace(tmp_path: Path) -> None:
    runs = prepare(make_grid({"same": TINY, "vary": {"seed": [0, 1]}}, "x"), tmp_path, None)
    assert seconds_left(runs, 1) is None
    runs[0].seconds, runs[0].share, runs[0].status = 10.0, 0.5, "running"
    assert seconds_left(runs, 1) == pytest.approx(30.0)
    assert seconds_left(runs, 2) == pytest.approx(15.0)
    runs[0].resumed_at = 0.4  # only a tenth of it was done in these ten seconds
    assert seconds_left(runs, 1) == pytest.approx(150.0)
