from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from upcl.research.estimate import estimates
from upcl.research.grid import make_grid, prepare

CPU = torch.device("cpu")
TINY: dict[str, Any] = {"data": "synthetic:classes=4,train=8,test=4", "tasks": 2, "epochs": 2, "memory": "4"}


def test_cost_is_estimated_for_waiting_runs_only(tmp_path: Path) -> None:
    runs = prepare(make_grid({"same": TINY, "vary": {"method": ["upcl", "icarl"]}}, "x"), tmp_path, None)
    runs[1].status = "done"
    found = list(estimates(runs, None, CPU))
    assert found[1] is None
    assert found[0] and found[0].seconds > 0 and found[0].disk > 1000


def test_estimate_counts_images_that_come_back(tmp_path: Path) -> None:
    same = {**TINY, "data": "synthetic:classes=8,train=8,test=1", "tasks": 4, "method": "joint"}
    grid = make_grid({"same": same, "vary": {"scenario": ["disjoint", "blurry:50", "repeat:100"]}}, "x")
    disks = [estimate.disk for estimate in estimates(prepare(grid, tmp_path, None), None, CPU) if estimate]
    assert disks == [disks[0]] * 3, "in the end, every image is kept once"


def test_estimate_of_joint_training_counts_all_images(tmp_path: Path) -> None:
    same = {**TINY, "data": "synthetic:classes=8,train=8,test=1", "tasks": 8}
    runs = prepare(make_grid({"same": same, "vary": {"method": ["joint", "finetune"]}}, "x"), tmp_path, None)
    joint, finetune = (estimate.disk for estimate in estimates(runs, None, CPU) if estimate)
    assert joint - finetune >= 8 * 8 * 3 * 8 * 8
