"""What a recipe does to the weights at the end of a stage: average them, pull them back, re-estimate batch norms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from upcl.core.types import Samples, Stage
from upcl.data import Transform

NORM_BATCHES = 50  # at most, to re-estimate batch-norm statistics


class Finish:
    """The end of a stage as its recipe describes it: averaged weights, a pull to the old ones, balanced batch norms.

    Args:
        net: the network as the stage begins.
        stage: the stage to train.

    Example:
        >>> from upcl.checks import MethodHarness, few_digits
        >>> from upcl.methods import METHODS
        >>> harness = MethodHarness(METHODS["finetune"], few_digits(2))
        >>> finish = Finish(harness.method.net, next(harness.method.learn(harness.tasks[0])))
        >>> finish.state()  # nothing to do with this recipe
        {}
    """

    def __init__(self, net: nn.Module, stage: Stage) -> None:
        self.net, self.stage, recipe = net, stage, stage.recipe
        self.before = snapshot(net.get_submodule("backbone")) if recipe.pull else {}
        self.average = MovingAverage(net, stage.params, recipe.ema) if recipe.ema else None

    def after_step(self) -> None:
        """Follow the weights."""
        if self.average:
            self.average.update()

    def averaged(self) -> AbstractContextManager[None]:
        """Use the averaged weights for a while, if there are any."""
        return self.average.applied() if self.average else nullcontext()

    def apply(
        self, best: Mapping[str, Tensor] | None, data: Samples, transform: Transform, device: torch.device
    ) -> None:
        """Give the network its final weights.

        Args:
            best: the state of the selected epoch; None for the last one.
            data: the data of the stage, on the device.
            transform: turns raw inputs into batches.
            device: where to compute.
        """
        if best is not None:
            self.net.load_state_dict(best)
        elif self.average:
            self.average.apply()
        if self.before:
            pull(self.net.get_submodule("backbone"), self.before, self.stage.recipe.pull)
        if self.stage.recipe.balanced_norm:
            balance_norms(self.net, self.stage, data, transform, device)

    def state(self) -> dict[str, Any]:
        """What `load` needs to continue."""
        return self.average.state() if self.average else {}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a saved state.

        Args:
            state: what `state` returned.
        """
        if self.average:
            self.average.load(state)


class MovingAverage:
    """An exponential moving average of the trained parameters and of the batch-norm statistics.

    The decay rises to its value in the first steps, so that the initial weights do not linger.

    Args:
        net: the network.
        params: the parameters to average.
        decay: share of the old average.

    Example:
        >>> layer = nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.zeros_(layer.weight)
        >>> average = MovingAverage(layer, [layer.weight], decay=0.5)
        >>> _ = nn.init.ones_(layer.weight)
        >>> average.update()
        >>> with average.applied():
        ...     print(round(layer.weight.item(), 2))
        0.9
        >>> layer.weight.item()
        1.0
    """

    def __init__(self, net: nn.Module, params: Sequence[Tensor], decay: float) -> None:
        norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
        statistics = [value for norm in norms for value in (norm.running_mean, norm.running_var) if value is not None]
        self.tensors: list[Tensor] = [*(parameter.detach() for parameter in params), *statistics]
        self.values = [tensor.clone() for tensor in self.tensors]
        self.decay = decay
        self.steps = 0

    @torch.no_grad()
    def update(self) -> None:
        """Add the present weights to the average."""
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 9))
        torch._foreach_lerp_(self.values, self.tensors, 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Use the averaged weights for a while."""
        present = [tensor.clone() for tensor in self.tensors]
        self.apply()
        try:
            yield
        finally:
            _copy(present, self.tensors)

    def apply(self) -> None:
        """Give the network the averaged weights."""
        _copy(self.values, self.tensors)

    def state(self) -> dict[str, Any]:
        """What `load` needs to continue."""
        return {"values": self.values, "steps": self.steps}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a saved state.

        Args:
            state: what `state` returned.
        """
        _copy(state["values"], self.values)
        self.steps = state["steps"]


@torch.no_grad()
def _copy(source: list[Tensor], target: list[Tensor]) -> None:
    for value, tensor in zip(source, target, strict=True):
        tensor.copy_(value)


def snapshot(module: nn.Module) -> dict[str, Tensor]:
    """Copy the floating-point state of a module.

    Args:
        module: the module.

    Example:
        >>> list(snapshot(nn.Linear(2, 1, bias=False)))
        ['weight']
    """
    return {name: value.clone() for name, value in module.state_dict().items() if value.is_floating_point()}


@torch.no_grad()
def pull(module: nn.Module, before: dict[str, Tensor], share: float) -> None:
    """Blend a module with an earlier state of its own.

    Args:
        module: the module, which is changed.
        before: the earlier state, as `snapshot` returned it.
        share: weight of the earlier state.

    Example:
        >>> layer = nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.ones_(layer.weight)
        >>> before = snapshot(layer)
        >>> _ = nn.init.zeros_(layer.weight)
        >>> pull(layer, before, share=0.25)
        >>> layer.weight.item()
        0.25
    """
    state = module.state_dict()
    for name, value in before.items():
        state[name].lerp_(value, share)


@torch.no_grad()
def balance_norms(net: nn.Module, stage: Stage, data: Samples, transform: Transform, device: torch.device) -> None:
    """Re-estimate batch-norm statistics on class-balanced batches: old classes then count as much as new ones.

    Norms outside of the backbone, which no features pass through, stay as they are.

    Args:
        net: the network in training mode; norms in evaluation mode stay as they are.
        stage: batch size and augmentation.
        data: the samples to draw from.
        transform: turns raw inputs into batches.
        device: where to compute.

    Example:
        >>> from upcl.checks import MethodHarness, few_digits
        >>> from upcl.methods import METHODS
        >>> harness = MethodHarness(METHODS["finetune"], few_digits(2))
        >>> method, setting = harness.method, harness.method.setting
        >>> stage = next(method.learn(harness.tasks[0]))
        >>> norm = method.net.backbone.stem[0][1]
        >>> balance_norms(method.net.train(), stage, stage.data, setting.transform, setting.device)
        >>> bool((norm.running_mean != 0).any()), norm.momentum
        (True, 0.1)
    """
    modules = net.get_submodule("backbone").modules()
    norms = [module for module in modules if isinstance(module, nn.BatchNorm2d) and module.training]
    if not norms or data.inputs.is_floating_point():
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a cumulative average
    counts = data.counts(int(data.labels.max()) + 1)
    size = stage.recipe.batch_size_for(len(data))
    num = min(-(-len(data) // size), NORM_BATCHES)
    chosen = torch.multinomial(1 / counts[data.labels].double(), num * size, replacement=True).to(device)
    for inputs in transform.batches(data.inputs, chosen.split(size), device, augment=stage.augment):
        net.features(inputs)  # type: ignore[operator]
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
