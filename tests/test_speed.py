"""Speed without another result: each means gives the same losses; nothing waits, repeats or piles up."""

from __future__ import annotations

import dataclasses
import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import upcl.research.bench
import upcl.research.run
import upcl.training.evaluate
from upcl import METHODS, run
from upcl.cli import main
from upcl.core.frames import extend_orthonormal
from upcl.core.losses import supervised_contrast
from upcl.core.memory import herding
from upcl.nets import Execution, LinearHead, Network, PrototypeHead, frozen_copy, make_backbone
from upcl.research.bench.plain import PlainHead, plain_contrast, plain_herding
from upcl.research.bench.steps import Lesson, Rivals
from upcl.research.bench.timing import Row, duration, growth_of, interleaved, overhead, speedup
from upcl.research.run import RunProgress
from upcl.training.engine import fit

CPU = torch.device("cpu")
TINY = "synthetic:classes=4,size=8,train=12,test=4"


def network() -> Network[LinearHead]:
    torch.manual_seed(0)
    net = Network(make_backbone("small"), LinearHead(128))
    net.grow(3)
    return net


def loss_and_gradient(net: Network[LinearHead]) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    images, labels = torch.randn(8, 3, 16, 16), torch.arange(8) % 3
    loss = nn.functional.cross_entropy(net.train()(images), labels)
    (gradient,) = torch.autograd.grad(loss, [next(net.parameters())])
    return loss.detach(), gradient


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it compiles
@pytest.mark.parametrize(
    ("execution", "tolerance"),
    [(Execution(), 1e-5), (Execution("bfloat16"), 0.02), (Execution(compiled=True), 1e-5)],
    ids=["channels-last", "bfloat16", "compiled"],
)
def test_every_execution_gives_the_same_loss(execution: Execution, tolerance: float) -> None:
    wanted, gradient = loss_and_gradient(network())
    net = network()
    net.set_execution(execution)
    assert next(net.parameters()).is_contiguous(memory_format=torch.channels_last)
    found, moved = loss_and_gradient(net)
    assert found.dtype == torch.float32
    assert torch.allclose(found, wanted, rtol=tolerance)
    assert (moved - gradient).norm() <= 10 * tolerance * gradient.norm()


def test_a_folded_teacher_says_what_the_network_says() -> None:
    net = network()
    loss_and_gradient(net)  # moves the running statistics
    images = torch.randn(5, 3, 16, 16)
    assert torch.allclose(frozen_copy(net).embed(images), net.eval().embed(images), atol=1e-5)
    assert not frozen_copy(net).embed(images).requires_grad


def test_our_parts_equal_the_plain_ones() -> None:
    torch.manual_seed(0)
    unit, labels = nn.functional.normalize(torch.randn(24, 16)), torch.arange(24) % 6
    assert torch.allclose(supervised_contrast(unit, labels, 0.1), plain_contrast(unit, labels, 0.1), atol=1e-5)
    features = torch.randn(50, 8).double()
    assert herding(nn.functional.normalize(features), 20).tolist() == plain_herding(features.numpy(), 20)
    frame = extend_orthonormal(torch.empty(0, 16), 6)
    ours, plain = PrototypeHead(16, frame=frame.clone()), PlainHead(frame, torch.ones(6))
    ours.grow(6)
    for _ in range(4):
        rows = nn.functional.normalize(torch.randn(24, 16))
        ours.update_centroids(rows, labels, 0.9)
        ours.assign(0)
        plain.match(rows, labels)
        assert torch.equal(ours.vectors, plain.prototypes)


class Waits(TorchDispatchMode):
    """Counts what would make a program wait for its accelerator: numbers read out of tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        return func(*args, **(kwargs or {}))


def waits(name: str, task: int, batch_size: int) -> int:
    lesson = Lesson(name, "small", TINY, task=task, batch_size=batch_size)
    waiting = Waits()
    with waiting:
        fit(lesson.method.net, lesson.stage, transform=lesson.dataset.transform, device=CPU, seed_path=(0,))
    return int(waiting.count)


@pytest.mark.parametrize("task", [0, 1])
@pytest.mark.parametrize("name", sorted(METHODS))
def test_no_step_waits_for_the_device(name: str, task: int) -> None:
    lesson = Lesson(name, "small", TINY, task=task)
    few, many = waits(name, task, 24), waits(name, task, 8)
    more = -(-len(lesson.stage.data) // 8) - -(-len(lesson.stage.data) // 24)
    allowed = more if name == "upcl" else 0  # is the assignment still the best? one boolean a step
    assert many - few <= allowed


def test_a_task_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = upcl.training.evaluate.evaluate

    def counted(*args: Any) -> Any:
        calls.append(args[2])
        return real(*args)

    monkeypatch.setattr(upcl.research.run, "evaluate", counted)
    run("upcl", TINY, tasks=2, epochs=3)
    assert calls == [2, 4]


def live_bytes() -> int:
    gc.collect()
    storages = {
        t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
        for t in gc.get_objects()
        if type(t) in (Tensor, nn.Parameter)
    }
    return sum(storages.values())


@pytest.mark.parametrize("name", ["upcl", "lucir"])
def test_many_tasks_hold_no_more_than_what_is_stored(name: str) -> None:
    held: list[int] = []

    def watch(step: RunProgress) -> None:
        if step.stage == "done":
            held.append(live_bytes())

    record = run(name, "synthetic:classes=16,size=8,train=4,test=1", tasks=16, epochs=1, memory="16", watch=watch)
    assert len(held) == 16 and all(peak > 0 for peak in record["peak_memory_mb"])
    a_class = 3 * 4 * 128 * 4 + 192 * 4  # rows of the head, its centroid and prototype, momentum; a few images
    assert held[-1] - held[4] <= 11 * a_class


# --- the bench itself


def test_ratios_are_taken_round_by_round() -> None:
    times = {"ours": [1.0, 2.0, 9.0], "bare": [1.0, 1.0, 3.0]}
    row = overhead("g", "n", times, 2.5)
    assert (row.figure, row.low, row.high, row.met) == (2.0, 1.5, 2.5, True)
    fast = speedup("g", "n", {"ours": [1.0, 1.0], "plain": [3.0, 5.0]}, 4.5)
    assert fast.figure == 4.0 and fast.met is False
    assert duration("g", "n", [0.002], 1.0).met is False and duration("g", "n", [0.002]).met is None
    assert growth_of("n", [10, 100], [1.0, 100.0], 2).figure == pytest.approx(2)
    assert growth_of("n", [10, 100], [1.0, 100.0], 1).met is False


def test_rivals_take_turns() -> None:
    order: list[str] = []
    found = interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2)
    assert order == ["a", "b"] * 3 and [len(times) for times in found.values()] == [2, 2]


def test_lessons_and_rivals_run(tmp_path: Path) -> None:
    for name in ("upcl", "icarl", "wa"):
        lesson = Lesson(name, "small", TINY, task=1)
        assert lesson.method.teacher
        lesson.epoch(tmp_path)
        lesson.bare()
    for name in ("upcl", "wa"):
        rivals = Rivals(name, "small", TINY, tmp_path)
        rivals.ours()
        rivals.plain(0)
    assert {p.name for p in tmp_path.iterdir()} == {"checkpoint.pt", "events.jsonl", "plain.pt"}


def test_bench_prints_a_table_and_writes_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def some(repeats: int) -> Iterator[Row]:
        yield Row("parts", f"{repeats} rounds of nothing", "ours", "plain", 2.0, 1.0, 3.0, "x", "at least", 4.0)

    monkeypatch.setattr(upcl.research.bench, "GROUPS", {"parts": some})
    path = tmp_path / "bench.json"
    result = CliRunner().invoke(main, ["bench", "--repeats", "3", "--json", str(path)], env={"COLUMNS": "120"})
    assert result.exit_code == 0 and "3 rounds of nothing" in result.output and "missed" in result.output
    (row,) = json.loads(path.read_text())
    assert row["met"] is False and row["target"] == 4.0
    wrong = CliRunner().invoke(main, ["bench", "--only", "part"])
    assert wrong.exit_code == 2 and "parts" in wrong.output


def test_a_profile_is_written_and_told(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["train", "upcl", "--data", TINY, "--tasks", "2", "--epochs", "4", "--out", str(out), "--profile"]
    result = CliRunner().invoke(main, [*words, "--set", "recipe.batch_size=4"], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    for task in (0, 1):
        trace = json.loads((out / f"profile-task-{task}.json").read_text())
        names = {event.get("name") for event in trace["traceEvents"]}
        assert {"batch", "losses", "backward", "update"} <= names
        assert f"task {task}: 10 steps" in result.output
    assert "aten::" in result.output


def test_without_a_compiler_a_run_goes_on_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no compiler\nand a long story")

    monkeypatch.setattr(torch, "compile", broken)
    record = run("upcl", TINY, tasks=2, epochs=1, compiled=True)
    assert record["environment"]["compiled"] is False
    assert "not compiled, as this machine cannot: no compiler" in record["notes"]


def test_precision_is_part_of_a_runs_identity() -> None:
    full, half = (run("upcl", TINY, tasks=2, epochs=1, precision=p) for p in ("float32", "bfloat16"))
    assert full["config_digest"] != half["config_digest"] and full["weights_sha256"] != half["weights_sha256"]
    assert dataclasses.asdict(Execution()) == {"precision": "float32", "compiled": False}
