from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from upcl.checks import MethodHarness, few_digits
from upcl.core.errors import CheckpointError, UserError
from upcl.core.types import Task
from upcl.methods import METHODS
from upcl.training.checkpoints import load_checkpoint, save_checkpoint
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


def saved_epoch(harness: MethodHarness, path: Path) -> dict[str, Any]:
    """The checkpoint of a task that was stopped after its first epoch."""

    def stop(_task: Task, _stage: str, _result: EpochResult) -> None:
        raise KeyboardInterrupt

    with open_folder(path) as folder, suppress(KeyboardInterrupt):
        TaskTrainer(harness.method, folder, 0, {}, on_epoch=stop).learn(harness.tasks[0])
    return load_checkpoint(path / "checkpoints" / "task-0-stage-0.pt")


def test_altered_checkpoints_are_refused(tmp_path: Path) -> None:
    """Parts of a saved stage are missing or something else, under the right digest."""
    data = few_digits()
    state = saved_epoch(MethodHarness(METHODS["finetune"], data), tmp_path)
    fit, weight = state["fit"], next(iter(state["fit"]["net"]))
    optimizer = fit["optimizer"]
    changes: list[dict[str, Any]] = [{key: None} for key in ("seconds", "finished", "fit", "notes")]
    changes += [{"seconds": "x"}, {"finished": "x"}, {"finished": []}, {"finished": True, "fit": {}}, {"notes": 3}]
    changes += [{"fit": {key: value for key, value in fit.items() if key != gone}} for gone in fit]
    changes += [{"fit": {**fit, key: "x"}} for key in ("net", "epoch", "optimizer", "best")]
    changes += [{"fit": {**fit, "net": {**fit["net"], weight: value}}} for value in ("x", torch.zeros(3))]
    changes += [{"fit": {**fit, "optimizer": {**optimizer, "param_groups": []}}}]
    groups = [{"params": group["params"]} for group in optimizer["param_groups"]]
    changes += [{"fit": {**fit, "optimizer": {**optimizer, "param_groups": groups}}}]
    averages = {key: {"momentum_buffer": torch.zeros(3)} for key in optimizer["state"]}
    changes += [{"fit": {**fit, "optimizer": {**optimizer, "state": averages}}}]
    for change in changes:
        altered = {key: value for key, value in {**state, **change}.items() if value is not None}
        save_checkpoint(tmp_path / "checkpoints" / "task-0-stage-0.pt", altered)
        harness = MethodHarness(METHODS["finetune"], data)
        with open_folder(tmp_path) as folder, pytest.raises(CheckpointError, match="damaged"):
            trainer(harness, folder, []).learn(harness.tasks[0])
    save_checkpoint(tmp_path / "checkpoints" / "task-0-stage-0.pt", state)
    harness = MethodHarness(METHODS["finetune"], data)
    with open_folder(tmp_path) as folder:
        assert trainer(harness, folder, []).learn(harness.tasks[0]) > 0, "as it was saved it is accepted"
