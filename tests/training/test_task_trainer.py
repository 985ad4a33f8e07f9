from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from upcl.checks import MethodHarness, few_digits
from upcl.core.errors import UserError
from upcl.core.types import Task
from upcl.methods import METHODS
from upcl.training.engine import EpochResult
from upcl.training.run_folder import RunFolder
from upcl.training.task_trainer import TaskTrainer


@dataclass(frozen=True)
class Config:
    def to_json(self) -> dict[str, Any]:
        return {}

    def digest(self) -> str:
        return "digest"


def trainer(
    harness: MethodHarness, folder: RunFolder, epochs: list[tuple[int, str, int]], **kwargs: Any
) -> TaskTrainer:
    def on_epoch(task: Task, stage: str, result: EpochResult) -> None:
        epochs.append((task.index, stage, result.epoch))

    return TaskTrainer(harness.method, folder, seed=0, environment={"threads": 1}, on_epoch=on_epoch, **kwargs)


def open_folder(path: Path) -> RunFolder:
    return RunFolder(path, Config(), resume=True, save_seconds=0)


def test_all_stages_of_a_task_are_trained_and_reported(tmp_path: Path) -> None:
    harness = MethodHarness(METHODS["bic"], few_digits())
    epochs: list[tuple[int, str, int]] = []
    with open_folder(tmp_path) as folder:
        for task in harness.tasks[:2]:
            assert trainer(harness, folder, epochs).learn(task) > 0
    assert epochs == [(0, "train", 0), (0, "train", 1), *((1, s, e) for s in ("train", "bias") for e in range(2))]


def test_finished_stages_are_replayed_without_training(tmp_path: Path) -> None:
    first, second = (MethodHarness(METHODS["icarl"], few_digits()) for _ in range(2))
    epochs: list[tuple[int, str, int]] = []
    with open_folder(tmp_path) as folder:
        trainer(first, folder, epochs).learn(first.tasks[0])
        trained = len(epochs)
        trainer(second, folder, epochs).learn(second.tasks[0])
    assert (trained, len(epochs)) == (2, 2)
    states = first.method.net.state_dict(), second.method.net.state_dict()
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
    assert torch.equal(first.method.memory.samples.inputs, second.method.memory.samples.inputs)


def test_frozen_modules_are_not_trained(tmp_path: Path) -> None:
    harness = MethodHarness(METHODS["icarl"], few_digits())
    before = {name: value.clone() for name, value in harness.method.net.backbone.state_dict().items()}
    with open_folder(tmp_path) as folder:
        trainer(harness, folder, [], frozen=[harness.method.net.backbone]).learn(harness.tasks[0])
    assert all(torch.equal(before[name], value) for name, value in harness.method.net.backbone.state_dict().items())


def test_method_without_anything_to_train_is_refused(tmp_path: Path) -> None:
    harness = MethodHarness(METHODS["upcl"], few_digits())
    with open_folder(tmp_path) as folder, pytest.raises(UserError, match="no parameters to train"):
        trainer(harness, folder, [], frozen=[harness.method.net.backbone]).learn(harness.tasks[0])
