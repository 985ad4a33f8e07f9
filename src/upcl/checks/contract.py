"""Checks of the contract between a method and the training loop: of its steps, and of whole runs."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from upcl.core.errors import UserError
from upcl.core.identity import differences
from upcl.core.types import Task
from upcl.data import Dataset
from upcl.methods import MethodClass
from upcl.research.config import Request
from upcl.research.run import RunProgress, run

from .harness import QUICK, MethodHarness, check_scores


def stages_are_trainable(method: MethodClass, data: Dataset) -> None:
    """Each stage has data, finite named losses, and parameters of the network that all receive gradients.

    Args:
        method: the class of the method.
        data: a small data set.

    Example:
        >>> from upcl.checks import few_digits
        >>> from upcl.methods import METHODS
        >>> stages_are_trainable(METHODS["finetune"], few_digits(2))
    """
    harness = MethodHarness(method, data)
    for task in harness.tasks:
        for stage in harness.method.learn(task):
            names = {id(p): name for name, p in harness.method.net.named_parameters()}
            assert len(stage.data) > 0, f"stage '{stage.name}' has no data"
            assert len(stage.params) > 0, f"stage '{stage.name}' has no parameters"
            assert all(id(p) in names for p in stage.params), (
                "a trained parameter is not part of the network, so it is not saved"
            )
            losses = harness.losses(stage)
            assert losses, f"stage '{stage.name}' has no losses"
            for name, value in losses.items():
                assert value.ndim == 0 and bool(torch.isfinite(value)), f"loss '{name}' is {value}"
            total = torch.stack(list(losses.values())).sum()
            grads = torch.autograd.grad(total, list(stage.params), allow_unused=True)
            unused = [names[id(p)] for p, grad in zip(stage.params, grads, strict=True) if grad is None]
            assert not unused, f"stage '{stage.name}': no gradient reaches {unused}"
            harness.train(stage)


def only_the_stage_changes(method: MethodClass, data: Dataset) -> None:
    """Training a stage changes its parameters only: no other weight, frozen statistic, teacher or exemplar.

    Args:
        method: the class of the method.
        data: a small data set.

    Example:
        >>> from upcl.checks import few_digits
        >>> from upcl.methods import METHODS
        >>> only_the_stage_changes(METHODS["finetune"], few_digits(2))
    """
    harness = MethodHarness(method, data)
    for task in harness.tasks:
        for stage in harness.method.learn(task):
            parts = nn.ModuleDict({"net": harness.method.net})
            if harness.method.teacher:
                parts["teacher"] = harness.method.teacher
            exemplars = harness.method.memory.samples
            trained = {id(p) for p in stage.params}
            frozen = {id(b) for module in stage.frozen for b in module.buffers()}
            fixed: dict[str, torch.Tensor] = {name: p for name, p in parts.named_parameters() if id(p) not in trained}
            fixed.update({n: b for n, b in parts.named_buffers() if id(b) in frozen or n.startswith("teacher.")})
            before = {name: value.detach().clone() for name, value in fixed.items()}
            harness.train(stage)
            now = parts.state_dict()
            changed = [name for name, value in before.items() if not torch.equal(value, now[name])]
            assert not changed, f"changed although outside of stage '{stage.name}': {changed}"
            assert harness.method.memory.samples is exemplars, "the exemplars changed during a stage"


def scores_have_a_column_per_class(method: MethodClass, data: Dataset) -> None:
    """After each task the scores are finite, with one column per class seen.

    Args:
        method: the class of the method.
        data: a small data set.

    Example:
        >>> from upcl.checks import few_digits
        >>> from upcl.methods import METHODS
        >>> scores_have_a_column_per_class(METHODS["finetune"], few_digits(2))
    """
    harness = MethodHarness(method, data)
    for task in harness.tasks:
        harness.learn(task)
        check_scores(harness, task)


def first_task_has_no_teacher(method: MethodClass, data: Dataset) -> None:
    """Nothing is distilled before there are old classes.

    Args:
        method: the class of the method.
        data: a small data set.

    Example:
        >>> from upcl.checks import few_digits
        >>> from upcl.methods import METHODS
        >>> first_task_has_no_teacher(METHODS["icarl"], few_digits(2))
    """
    harness = MethodHarness(method, data)
    harness.learn(harness.tasks[0])
    assert harness.method.teacher is None, "there is a teacher in the first task"


def memory_stays_within_budget(method: MethodClass, data: Dataset) -> None:
    """The exemplars never exceed the budget, and are images of classes already seen.

    Args:
        method: the class of the method.
        data: a small data set.

    Example:
        >>> from upcl.checks import few_digits
        >>> from upcl.methods import METHODS
        >>> memory_stays_within_budget(METHODS["icarl"], few_digits(2))
    """
    harness = MethodHarness(method, data)
    for task in harness.tasks:
        harness.learn(task)
        _check_memory(harness, task)


def _check_memory(harness: MethodHarness, task: Task) -> None:
    budget, samples = harness.method.memory.budget, harness.method.memory.samples
    assert budget.unit == "everything" or len(samples) <= budget.amount, f"{len(samples)} exemplars"
    assert len(samples.counts(task.num_seen)) == task.num_seen, "an exemplar of a class not seen yet"


def extra_images_are_learned_or_refused(method: MethodClass, data: Dataset) -> None:
    """A task that mixes new classes with more images of known ones is learned; without a memory it is refused.

    Args:
        method: the class of the method.
        data: a small data set.

    Example:
        >>> from upcl.checks import few_digits
        >>> from upcl.methods import METHODS
        >>> extra_images_are_learned_or_refused(METHODS["finetune"], few_digits(2))  # it has no memory and refuses
    """
    harness = MethodHarness(method, data)
    first, second, third = harness.tasks
    held_back = torch.arange(len(first.train)) % 2 == 1
    harness.learn(dataclasses.replace(first, train=first.train[~held_back]))
    extra = first.train[held_back]
    mixed = dataclasses.replace(second, extra=extra)
    if not method.accepts_extra():
        before = {name: value.clone() for name, value in harness.method.net.state_dict().items()}
        try:
            harness.learn(mixed)
        except UserError:
            now = harness.method.net.state_dict()
            assert list(now) == list(before), "the network grew although the task was refused"
            assert all(torch.equal(before[name], now[name]) for name in before), "weights changed before the refusal"
            assert not len(harness.method.memory.samples), "images were stored although the task was refused"
            return
        raise AssertionError("it has no memory but accepted more images of known classes")
    available = harness.method.memory.samples.counts(first.num_seen) + extra.counts(first.num_seen)
    for stage in harness.method.learn(mixed):
        for name, value in harness.losses(stage).items():
            assert bool(torch.isfinite(value)), f"loss '{name}' is {value}"
        harness.train(stage)
    counts = harness.method.counts[: first.num_seen].cpu()
    assert bool((counts >= available).all()), "extra images of known classes were not trained on"
    check_scores(harness, second)
    _check_memory(harness, second)
    harness.learn(third)
    check_scores(harness, third)


def same_seed_same_weights(method: MethodClass, data: Dataset) -> None:
    """Two runs of one config agree in every bit; another seed gives other weights.

    Args:
        method: the class of the method.
        data: a small data set.

    Example:
        >>> from upcl.checks import few_digits
        >>> from upcl.methods import METHODS
        >>> same_seed_same_weights(METHODS["finetune"], few_digits(2))  # doctest: +SKIP
    """
    short = {**QUICK, "epochs": 1}
    first, second = (run(Request(method=method, data=data, **short)) for _ in range(2))
    other = run(Request(method=method, data=data, seed=1, **short))
    assert first.weights_sha256 == second.weights_sha256, "the same config gave other weights"
    assert first.weights_sha256 != other.weights_sha256, "the seed has no effect"


class Killed(BaseException):
    """Stands for a kill: nothing catches it.

    Example:
        >>> issubclass(Killed, Exception)  # so that `except Exception` lets it pass
        False
    """


def resume_is_exact(method: MethodClass, data: Dataset) -> None:
    """A run that is stopped after every epoch and every task, and resumed, ends like one that was never stopped.

    Args:
        method: the class of the method.
        data: a small data set.

    Example:
        >>> from upcl.checks import few_digits
        >>> from upcl.methods import METHODS
        >>> resume_is_exact(METHODS["finetune"], few_digits(2))  # doctest: +SKIP
    """
    request = Request(method=method, data=data, **QUICK)
    reference = run(request)
    with tempfile.TemporaryDirectory() as folder:
        stops, resumed = 0, None
        while resumed is None:
            try:
                resumed = run(request, out=Path(folder) / "run", resume=True, save_seconds=0, on_progress=_stop)
            except Killed:
                stops += 1
    harness = MethodHarness(method, data)
    epochs = sum(stage.recipe.epochs for task in harness.tasks for stage in harness.method.learn(task))
    assert stops == epochs + len(harness.tasks), f"the run was stopped {stops} times only"
    changed = differences(reference.reproducible_part(), resumed.reproducible_part())
    assert not changed, f"stopped {stops} times: {changed[:3]}"


def _stop(_: RunProgress) -> None:
    raise Killed


STEPS: tuple[Callable[[MethodClass, Dataset], None], ...] = (
    stages_are_trainable,
    only_the_stage_changes,
    scores_have_a_column_per_class,
    first_task_has_no_teacher,
    memory_stays_within_budget,
    extra_images_are_learned_or_refused,
)
WHOLE_RUNS: tuple[Callable[[MethodClass, Dataset], None], ...] = (same_seed_same_weights, resume_is_exact)
