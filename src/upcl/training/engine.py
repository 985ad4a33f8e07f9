"""The one training loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import record_function

from upcl.core.errors import TrainingError
from upcl.core.seeding import SeedPath, seed_all
from upcl.core.types import Batch, Stage
from upcl.data import Transform, strengthened

from .checkpoints import restoring
from .finish import Finish

FitState = dict[str, Any]


@dataclass(frozen=True, eq=False)
class EpochResult:
    """The state of training after an epoch.

    Args:
        epoch: index of the epoch.
        epochs: number of epochs of the stage.
        lr: learning rate of the last step.
        losses: mean of each loss term over the epoch.
        state: returns everything that `fit` needs to continue from here.

    Example:
        >>> result = EpochResult(epoch=0, epochs=2, lr=0.1, losses={"ce": 1.5, "kd": 0.5}, state=dict)
        >>> sum(result.losses.values())
        2.0
    """

    epoch: int
    epochs: int
    lr: float
    losses: Mapping[str, float]
    state: Callable[[], FitState]


@dataclass(frozen=True, eq=False)
class EpochSelector:
    """Selects the epoch whose weights a stage ends with: the best score, the earliest of equals.

    Args:
        score: rates the network as it is.
        every: evaluate every so many epochs.
        include_last: evaluate the last epoch as well.

    Example:
        >>> selector = EpochSelector(score=lambda: 0.5, every=5)
        >>> [epoch for epoch in range(8) if selector.is_due(epoch, epochs=8)]
        [0, 5, 7]
    """

    score: Callable[[], float]
    every: int = 5
    include_last: bool = True

    def is_due(self, epoch: int, epochs: int) -> bool:
        """Whether the network is rated after this epoch."""
        return epoch % self.every == 0 or (self.include_last and epoch == epochs - 1)


def fit(
    net: nn.Module,
    stage: Stage,
    *,
    transform: Transform,
    device: torch.device,
    seed_path: SeedPath,
    start: FitState | None = None,
    on_step: Callable[[], None] | None = None,
    on_epoch: Callable[[EpochResult], None] | None = None,
    selector: EpochSelector | None = None,
) -> None:
    """Minimise the sum of the stage's losses over its parameters; nothing else changes.

    Every epoch seeds all random generators from `seed_path`, so that `start` is enough to continue as if training had
    never been interrupted. The four parts of a step carry the names that a profile shows.

    Args:
        net: the network, which ends in evaluation mode.
        stage: data, losses, parameters and recipe.
        transform: turns raw inputs into batches.
        device: where to train.
        seed_path: what the seed of each epoch is derived from.
        start: a state from an earlier `EpochResult` to continue from.
        on_step: called after every step.
        on_epoch: called after every epoch.
        selector: selects the epoch to end with; without it, the last one.

    Raises:
        TrainingError: if a loss becomes infinite or NaN.

    Example:
        >>> from upcl.checks import MethodHarness, few_digits
        >>> from upcl.methods import METHODS
        >>> harness = MethodHarness(METHODS["finetune"], few_digits(2))
        >>> stage = next(harness.method.learn(harness.tasks[0]))
        >>> epochs = []
        >>> setting = harness.method.setting
        >>> fit(
        ...     harness.method.net,
        ...     stage,
        ...     transform=setting.transform,
        ...     device=setting.device,
        ...     seed_path=(0,),
        ...     on_epoch=lambda result: epochs.append(result.epoch),
        ... )
        >>> epochs
        [0, 1]
    """
    recipe, data = stage.recipe, stage.data.to(device)
    transform = strengthened(transform, recipe)
    finish = Finish(net, stage)
    optimizer = torch.optim.SGD(stage.params, lr=recipe.lr, momentum=recipe.momentum, weight_decay=recipe.weight_decay)
    first_epoch, best = 0, None
    if start is not None:
        with restoring(f"the saved epoch of stage '{stage.name}'"):
            net.load_state_dict(start["net"])
            _load_optimizer(optimizer, start["optimizer"])
            first_epoch, best = (
                start["epoch"] + 1,
                start["best"] and {key: start["best"][key] for key in ("score", "net")},
            )
            finish.load(start["finish"])

    with _training_mode(net, stage):
        for epoch in range(first_epoch, recipe.epochs):
            seed_all(*seed_path, "epoch", epoch)
            order = torch.randperm(len(data)).to(device)
            batches = [b.repeat(stage.views) for b in _make_batches(order, recipe.batch_size_for(len(data)))]
            totals: dict[str, Tensor] = {}
            lr = recipe.lr
            prepared = transform.batches(data.inputs, batches, device, augment=stage.augment)
            for step, index in enumerate(batches):
                with record_function("batch"):
                    inputs = next(prepared)
                with record_function("losses"):
                    batch = Batch(inputs, data.labels[index], epoch, recipe.epochs, step, len(batches))
                    losses = stage.losses(batch)
                with record_function("backward"):
                    optimizer.zero_grad(set_to_none=True)
                    torch.stack(list(losses.values())).sum().backward()
                with record_function("update"):
                    lr = _set_learning_rate(optimizer, recipe.learning_rate(epoch, step, len(batches)))
                    if recipe.clip:
                        nn.utils.clip_grad_norm_(stage.params, recipe.clip)
                    optimizer.step()
                    if stage.after_step:
                        stage.after_step()
                    finish.after_step()
                for name, value in losses.items():
                    totals[name] = totals.get(name, 0) + value.detach() * len(index)
                if on_step:
                    on_step()
            means = _mean_losses(totals, sum(map(len, batches)), stage.name, epoch)
            if selector and selector.is_due(epoch, recipe.epochs):
                with finish.averaged():
                    best = _select_best(best, selector, net, stage)
            if on_epoch:
                state = partial(_state, epoch, net, optimizer, best, finish)
                on_epoch(EpochResult(epoch, recipe.epochs, lr, means, state))
        seed_all(*seed_path, "finish")
        finish.apply(best["net"] if best else None, data, transform, device)


def _load_optimizer(optimizer: torch.optim.Optimizer, state: FitState) -> None:
    """Load a saved state and check what torch does not: the options of each group and the shape of each average."""
    options = [set(group) for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    if [set(group) for group in optimizer.param_groups] != options:
        raise ValueError("the optimizer has other options")
    for parameter, averages in optimizer.state.items():
        if any(value is not None and value.shape != parameter.shape for value in averages.values()):
            raise ValueError("the optimizer has an average of another shape")


def _set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> float:
    for group in optimizer.param_groups:
        group["lr"] = lr
    return lr


def _make_batches(order: Tensor, batch_size: int) -> list[Tensor]:
    """Indices of each batch. Batch norm needs two images: one left over joins the batch before it, or counts twice."""
    if len(order) == 1:
        order = order.repeat(2)
    batches = list(order.split(batch_size))
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


def _mean_losses(totals: Mapping[str, Tensor], num: int, stage: str, epoch: int) -> dict[str, float]:
    """Mean of each loss over the epoch: the only place where the loop waits for the device."""
    values = (torch.stack(list(totals.values())) / num).tolist()
    means = dict(zip(totals, values, strict=True))
    for name, value in means.items():
        if not torch.isfinite(torch.tensor(value)):
            raise TrainingError(
                f"loss '{name}' became {value} in epoch {epoch} of stage '{stage}': try a lower learning rate "
                "(--set recipe.lr=0.01)"
            )
    return means


def _select_best(best: FitState | None, selector: EpochSelector, net: nn.Module, stage: Stage) -> FitState | None:
    score = selector.score()
    _set_modes(net, stage)
    if best is not None and score <= best["score"]:
        return best
    return {"score": score, "net": {name: value.clone() for name, value in net.state_dict().items()}}


def _state(
    epoch: int,
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    best: FitState | None,
    finish: Finish,
) -> FitState:
    return {
        "epoch": epoch,
        "net": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "best": best,
        "finish": finish.state(),
    }


def _set_modes(net: nn.Module, stage: Stage) -> None:
    net.train()
    for module in stage.frozen:
        module.eval()


@contextmanager
def _training_mode(net: nn.Module, stage: Stage) -> Iterator[None]:
    """Training mode, with gradients for the stage's parameters alone; afterwards evaluation mode."""
    trained = {id(p) for p in stage.params}
    before = {p: p.requires_grad for p in net.parameters()}
    for parameter in before:
        parameter.requires_grad_(id(parameter) in trained)
    _set_modes(net, stage)
    try:
        yield
    finally:
        net.eval()
        for parameter, required in before.items():
            parameter.requires_grad_(required)
