from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from upcl.methods.closed_form import ClosedForm
from upcl.methods.registry import METHODS
from upcl.research.bench import steps
from upcl.research.bench.steps import BenchTask, CheckpointTimer, EpochComparison
from upcl.training.engine import fit

TINY = "synthetic:classes=4,size=8,train=12,test=4"


def weights(task: BenchTask) -> torch.Tensor:
    return torch.cat([value.flatten().clone() for value in task.method.net.parameters()])


@pytest.mark.parametrize("method", ["upcl", "icarl", "wa"])
def test_both_epochs_of_a_task_train(method: str, tmp_path: Path) -> None:
    task = BenchTask(method, "small", TINY, task=1)
    assert task.method.teacher and task.method.task.index == 1
    before = weights(task)
    task.train_epoch(tmp_path)
    trained = weights(task)
    assert not torch.equal(before, trained)
    task.bare_epoch()
    assert not torch.equal(trained, weights(task))
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint.pt", "events.jsonl"}


@pytest.mark.parametrize(("method", "task"), [("upcl", 0), ("wa", 1)])
def test_comparison_trains_both_on_the_same_images(method: str, task: int, tmp_path: Path) -> None:
    comparison = EpochComparison(method, "small", TINY, tmp_path)
    assert comparison.task.method.task.index == task
    assert len(comparison.images) == len(comparison.task.stage.data)
    before = next(comparison.net.parameters()).detach().clone()
    comparison.train_ours()
    comparison.train_plain(0)
    assert not torch.equal(before, next(comparison.net.parameters()))
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint.pt", "events.jsonl", "plain.pt"}


def test_checkpoints_are_due_every_thirty_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((100.0, 129.0, 130.0, 131.0))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    timer = CheckpointTimer()
    assert [timer.is_due() for _ in range(4)] == [True, False, True, False]


class SynchronisationCounter(TorchDispatchMode):
    """Counts what would make a program wait for its accelerator: numbers read out of tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        return func(*args, **(kwargs or {}))


def count_synchronisations(method: str, index: int, batch_size: int) -> tuple[int, int]:
    """Synchronisations and steps of one epoch."""
    task = BenchTask(method, "small", TINY, task=index, batch_size=batch_size)
    steps_taken: list[None] = []
    counter = SynchronisationCounter()
    with counter:
        fit(
            task.method.net,
            task.stage,
            transform=task.dataset.transform,
            device=steps.CPU,
            seed_path=(0,),
            on_step=lambda: steps_taken.append(None),
        )
    return int(counter.count), len(steps_taken)


@pytest.mark.parametrize("index", [0, 1], ids=["first task", "later task"])
@pytest.mark.parametrize("method", sorted(name for name, cls in METHODS.items() if not issubclass(cls, ClosedForm)))
def test_no_step_waits_for_the_device(method: str, index: int) -> None:
    few, few_steps = count_synchronisations(method, index, 24)
    many, many_steps = count_synchronisations(method, index, 8)
    assert many_steps > few_steps
    per_step = 1 if method in ("upcl", "upcl+") else 0  # is the assignment still the best? one boolean
    assert many - few <= per_step * (many_steps - few_steps)
