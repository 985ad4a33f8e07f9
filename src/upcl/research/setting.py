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
    return Protocol(dataset, config.task_sizes, config.order_seed, config.validation, config.tail, config.order)
