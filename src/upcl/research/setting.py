"""What a config means: the setting of its method, and its sequence of tasks."""

from __future__ import annotations

import torch

from upcl.data import Dataset
from upcl.methods import Setting
from upcl.nets import Execution
from upcl.training.pretrained import find_pretrained
from upcl.training.sharding import Sharding
from upcl.training.world import World

from .config import RunConfig
from .protocol import Protocol
from .scenarios import Scenario


def make_setting(
    config: RunConfig, dataset: Dataset, device: torch.device, *, compiled: bool = False, world: World | None = None
) -> Setting:
    """The setting of a method in a run.

    Args:
        config: the resolved configuration.
        dataset: the data set.
        device: where to train.
        compiled: compile the backbone.
        world: the processes that share the shards of a batch; by default only this one.

    Example:
        >>> from upcl.research.config import Request, resolve
        >>> request = Request(method="icarl", data="digits")
        >>> config = resolve(request, data := request.load_dataset(), request.method_class)
        >>> make_setting(config, data, torch.device("cpu")).num_classes
        10
    """
    frozen = config.frozen_backbone
    sharding = Sharding(config.shards, world or World()) if config.shards > 1 else None
    return Setting(
        backbone=find_pretrained(frozen).architecture if frozen else config.backbone,
        channels=3 if frozen else dataset.channels,
        transform=dataset.transform,
        recipes=config.recipes,
        budget=config.budget,
        selection=config.exemplars,
        image_shape=dataset.image_shape,
        num_classes=len(dataset.classes),
        device=device,
        execution=Execution(config.precision, compiled, sharding),
    )


def make_protocol(config: RunConfig, dataset: Dataset) -> Protocol:
    """The sequence of tasks of a run.

    Args:
        config: the resolved configuration.
        dataset: the data set.

    Example:
        >>> from upcl.research.config import Request, resolve
        >>> request = Request(data="digits", tasks=2)
        >>> len(make_protocol(resolve(request, data := request.load_dataset(), request.method_class), data))
        2
    """
    scenario = Scenario.parse(config.scenario) if config.scenario else None
    stream = config.validation, config.tail, config.order, scenario
    return Protocol(dataset, config.task_sizes, config.order_seed, *stream)


def input_shape(config: RunConfig, setting: Setting) -> tuple[int, ...]:
    """The shape of an image as the backbone gets it, also if a frozen backbone has computed its features before.

    Args:
        config: the resolved configuration.
        setting: the setting of the run's method.

    Example:
        >>> from upcl.research.config import Request, resolve
        >>> request = Request(method="icarl", data="digits")
        >>> config = resolve(request, data := request.load_dataset(), request.method_class)
        >>> input_shape(config, make_setting(config, data, torch.device("cpu")))
        (1, 8, 8)
    """
    if name := config.frozen_backbone:
        size = find_pretrained(name).size
        return setting.channels, size, size
    return setting.image_shape


def budget_note(config: RunConfig, total_bytes: int) -> str:
    """What a reader must know if network and exemplars take more than a budget for both; "" if they do not.

    Args:
        config: the resolved configuration.
        total_bytes: bytes of network and exemplars.

    Example:
        >>> from upcl.research.config import Request, resolve
        >>> request = Request(method="icarl", data="digits", memory="1MB-total")
        >>> config = resolve(request, request.load_dataset(), request.method_class)
        >>> budget_note(config, 2_000_000)
        'the network alone takes more than the memory of 1MB-total'
    """
    budget = config.budget
    exceeded = budget.unit == "total bytes" and total_bytes > budget.amount
    return f"the network alone takes more than the memory of {config.memory}" if exceeded else ""
