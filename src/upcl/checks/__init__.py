"""The contract of a method as code: a list of checks that every method passes, in the package or outside of it.

    from upcl.checks import CHECKS, check_method
    check_method(MyMethod)              # runs them all; the first that fails raises AssertionError

Each check runs the method on small streams (synthetic, and a few real digits) with the smallest backbone, in seconds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from upcl.core.errors import UserError
from upcl.core.identity import differences
from upcl.core.seeding import preserve_rng_state, seed_all
from upcl.core.types import Batch, Losses, Samples, Stage, Task
from upcl.data import Dataset, load_dataset
from upcl.methods.registry import MethodClass
from upcl.research.config import make_request, resolve
from upcl.research.protocol import Protocol
from upcl.research.record import Record, reproducible_part
from upcl.research.run import RunProgress, make_setting, run
from upcl.training.engine import fit

STREAM = "synthetic:classes=6,train=8,test=4"
QUICK: dict[str, Any] = {"tasks": 3, "memory": "12", "epochs": 2}


def few_digits(each: int = 8) -> Dataset:
    """Some real images of six handwritten digits."""
    digits = load_dataset("digits")

    def some(samples: Samples) -> Samples:
        return samples[torch.cat([(samples.labels == k).nonzero()[:each, 0] for k in range(6)])]

    parts = {"train": some(digits.train), "test": some(digits.test)}
    return Dataset(**{**vars(digits), **parts, "name": "few-digits", "classes": digits.classes[:6]})


class MethodHarness:
    """A method in a small setting, to be taken through its tasks by hand."""

    def __init__(self, method: MethodClass, data: Dataset) -> None:
        config = resolve(make_request({"data": data.name, **QUICK}), data, method)
        self.protocol = Protocol(data, config.task_sizes, config.order_seed)
        self.tasks = [self.protocol.task(t) for t in range(len(self.protocol))]
        self.method = method(**config.options)
        seed_all(0)
        self.method.start(make_setting(config, data, torch.device("cpu")))

    def train(self, stage: Stage) -> None:
        setting = self.method.setting
        fit(self.method.net, stage, transform=setting.transform, device=setting.device, seed_path=(0,))

    def learn(self, task: Task) -> None:
        for stage in self.method.learn(task):
            self.train(stage)

    def losses(self, stage: Stage) -> Losses:
        """The losses of some of a stage's data, as in its last epoch."""
        some = stage.data[torch.arange(0, len(stage.data), max(1, len(stage.data) // 16))]
        inputs, _ = next(self.method.setting.batches(some))
        self.method.net.train()
        for module in stage.frozen:
            module.eval()
        return stage.losses(Batch(inputs, some.labels, stage.recipe.epochs - 1, stage.recipe.epochs, 0, 1))


def stages_are_trainable(method: MethodClass, data: Dataset) -> None:
    """Each stage has data, and parameters of the network that all get gradients from finite, named losses."""
    rehearsal = MethodHarness(method, data)
    for task in rehearsal.tasks:
        for stage in rehearsal.method.learn(task):
            names = {id(p): name for name, p in rehearsal.method.net.named_parameters()}
            assert len(stage.data) > 0, f"stage '{stage.name}' has no data"
            assert len(stage.params) > 0, f"stage '{stage.name}' has no parameters"
            assert all(id(p) in names for p in stage.params), (
                "a trained parameter is not in the network: it is not saved"
            )
            losses = rehearsal.losses(stage)
            assert losses, f"stage '{stage.name}' has no losses"
            for name, value in losses.items():
                assert value.ndim == 0 and bool(torch.isfinite(value)), f"loss '{name}' is {value}"
            total = torch.stack(list(losses.values())).sum()
            grads = torch.autograd.grad(total, list(stage.params), allow_unused=True)
            unused = [names[id(p)] for p, grad in zip(stage.params, grads, strict=True) if grad is None]
            assert not unused, f"stage '{stage.name}': no gradient reaches {unused}"
            rehearsal.train(stage)


def only_the_stage_moves(method: MethodClass, data: Dataset) -> None:
    """Training a stage moves its parameters alone: no other weight, frozen statistic, teacher or exemplar."""
    rehearsal = MethodHarness(method, data)
    for task in rehearsal.tasks:
        for stage in rehearsal.method.learn(task):
            parts = nn.ModuleDict({"net": rehearsal.method.net})
            if rehearsal.method.teacher:
                parts["teacher"] = rehearsal.method.teacher
            exemplars = rehearsal.method.memory.samples
            trained = {id(p) for p in stage.params}
            frozen = {id(b) for module in stage.frozen for b in module.buffers()}
            still: dict[str, torch.Tensor] = {name: p for name, p in parts.named_parameters() if id(p) not in trained}
            still.update({n: b for n, b in parts.named_buffers() if id(b) in frozen or n.startswith("teacher.")})
            before = {name: value.detach().clone() for name, value in still.items()}
            rehearsal.train(stage)
            now = parts.state_dict()
            moved = [name for name, value in before.items() if not torch.equal(value, now[name])]
            assert not moved, f"moved although outside of stage '{stage.name}': {moved}"
            assert rehearsal.method.memory.samples is exemplars, "the exemplars changed during a stage"


def scores_have_a_column_for_each_class(method: MethodClass, data: Dataset) -> None:
    """After each task the scores are finite, one column for each class seen."""
    rehearsal = MethodHarness(method, data)
    for task in rehearsal.tasks:
        rehearsal.learn(task)
        images = rehearsal.protocol.test(task.num_seen)
        scores = rehearsal.method.scores(rehearsal.method.extract(images))
        wanted = (len(images), task.num_seen)
        assert scores.shape == wanted, f"scores are {tuple(scores.shape)}, not {wanted}"
        assert bool(torch.isfinite(scores).all()), "scores are not finite"


def first_task_has_no_teacher(method: MethodClass, data: Dataset) -> None:
    """Nothing is distilled before there is anything old."""
    rehearsal = MethodHarness(method, data)
    rehearsal.learn(rehearsal.tasks[0])
    assert rehearsal.method.teacher is None, "there is a teacher in the first task"


def memory_keeps_its_budget(method: MethodClass, data: Dataset) -> None:
    """The exemplars never exceed the budget, and are images of classes already seen."""
    rehearsal = MethodHarness(method, data)
    for task in rehearsal.tasks:
        rehearsal.learn(task)
        budget, samples = rehearsal.method.memory.budget, rehearsal.method.memory.samples
        assert budget.unit == "everything" or len(samples) <= budget.amount, f"{len(samples)} exemplars"
        assert len(samples.counts(task.num_seen)) == task.num_seen, "an exemplar of a class not seen yet"


def same_seed_same_weights(method: MethodClass, data: Dataset) -> None:
    """Two runs of one config agree in every bit; another seed gives other weights."""
    once, again = (run(method, data, **QUICK) for _ in range(2))
    other = run(method, data, seed=1, **QUICK)
    assert once["weights_sha256"] == again["weights_sha256"], "the same config gave other weights"
    assert once["weights_sha256"] != other["weights_sha256"], "the seed has no effect"


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


def resume_is_exact(method: MethodClass, data: Dataset) -> None:
    """A run stopped after any epoch or task and resumed ends with the record of one that was never stopped."""
    steps: list[RunProgress] = []
    whole = run(method, data, watch=steps.append, **QUICK)
    with tempfile.TemporaryDirectory() as folder:
        for last in range(1, len(steps)):
            out = Path(folder) / f"{last}"
            _stop_after(method, data, out, last)
            resumed = run(method, data, out=out, resume=True, save_seconds=0, **QUICK)
            changed = differences(reproducible_part(whole), reproducible_part(resumed))
            assert not changed, f"stopped after step {last}: {changed[:3]}"


def _stop_after(method: MethodClass, data: Dataset, out: Path, last: int) -> None:
    steps: list[RunProgress] = []

    def watch(step: RunProgress) -> None:
        steps.append(step)
        if len(steps) == last:
            raise Killed

    try:
        run(method, data, out=out, watch=watch, save_seconds=0, **QUICK)
    except Killed:
        return
    raise AssertionError(f"the run ended before step {last}")


def _runs(data: str | Dataset, method: MethodClass, **changes: Any) -> Record:
    record = run(method, data, **{**QUICK, "epochs": 1, **changes})
    assert record["finished"]
    assert all(0 <= accuracy <= 100 for accuracy in record["top1"]["head"])
    return record


def one_class_a_task(method: MethodClass) -> None:
    """Tasks of a single class, from the very first."""
    _runs("synthetic:classes=4,train=8,test=4", method, tasks=4)


def one_image_in_a_class(method: MethodClass) -> None:
    """A class with a single training image."""
    dataset = load_dataset("synthetic:classes=4,train=8,test=4")
    rare = dataset.train.labels == 2
    rare[rare.nonzero()[0]] = False
    train = dataset.train[~rare]
    _runs(Dataset(**{**vars(dataset), "train": train, "name": "one-image"}), method, tasks=2)


def memory_smaller_than_the_classes(method: MethodClass) -> None:
    """Fewer slots than classes: it runs, and the record says so."""
    record = _runs(STREAM, method, memory="4")
    enough = not method.uses_memory or record["exemplars"][-1] > 4
    assert bool(record["notes"]) != enough, f"{record['exemplars'][-1]} exemplars, notes {record['notes']}"


def no_memory(method: MethodClass) -> None:
    """Without exemplars it runs, or says before training that it cannot."""
    if not method.needs_exemplars:
        _runs(STREAM, method, memory="0")
        return
    try:
        run(method, STREAM, **{**QUICK, "memory": "0"}, watch=_never)
    except UserError:
        return
    raise AssertionError("it needs exemplars but ran without")


def _never(_: RunProgress) -> None:
    raise AssertionError("training began")


def more_than_100_classes(method: MethodClass) -> None:
    """120 classes in 3 tasks."""
    _runs("synthetic:classes=120,train=3,test=1", method, memory="120")


def uneven_tasks(method: MethodClass) -> None:
    """Tasks of different sizes."""
    _runs(STREAM, method, tasks=[3, 1, 2])


def greyscale(method: MethodClass) -> None:
    """One channel."""
    _runs(STREAM + ",channels=1", method)


ON_DATA: tuple[Callable[[MethodClass, Dataset], None], ...] = (
    stages_are_trainable,
    only_the_stage_moves,
    scores_have_a_column_for_each_class,
    first_task_has_no_teacher,
    memory_keeps_its_budget,
    same_seed_same_weights,
    resume_is_exact,
)


ON_SHAPES: tuple[Callable[[MethodClass], None], ...] = (
    one_class_a_task,
    one_image_in_a_class,
    memory_smaller_than_the_classes,
    no_memory,
    more_than_100_classes,
    uneven_tasks,
    greyscale,
)


STREAMS: dict[str, Callable[[], Dataset]] = {"synthetic": lambda: load_dataset(STREAM), "digits": few_digits}


def _on(check: Callable[[MethodClass, Dataset], None], make: Callable[[], Dataset], method: MethodClass) -> None:
    check(method, make())


CHECKS: dict[str, Callable[[MethodClass], None]] = {
    **{f"{c.__name__} on {name}": partial(_on, c, make) for c in ON_DATA for name, make in STREAMS.items()},
    **{c.__name__: c for c in ON_SHAPES},
}


def check_method(method: MethodClass) -> None:
    """Run every check; the first that fails raises AssertionError with what is wrong."""
    for check in CHECKS.values():
        with preserve_rng_state():
            check(method)
