"""What surrounds a method: the choices of the protocol and the user, the same for every method."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from upcl.core.budget import Budget
from upcl.core.memory import Selection
from upcl.core.recipes import Recipes
from upcl.core.types import Samples
from upcl.data import Transform
from upcl.nets import Execution

EVALUATION_BATCH, EVALUATION_PIXELS = 512, 2**20  # images and pixels per batch, whichever is reached first


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What surrounds a method.

    Args:
        backbone: a key of `BACKBONES`.
        channels: channels of the images.
        transform: normalisation and augmentation of the data set.
        recipes: how stages are optimised in the first and in later tasks.
        budget: the limit on exemplars.
        selection: how exemplars are chosen.
        image_shape: the shape of one raw image, (C, H, W).
        num_classes: number of classes of all tasks together.
        device: where to train.
        execution: precision and compilation of the backbone.

    Example:
        >>> from upcl.core.recipes import Recipe
        >>> from upcl.data import load_dataset
        >>> data = load_dataset("synthetic:classes=4,train=8,test=4")
        >>> setting = Setting(
        ...     backbone="small",
        ...     channels=data.channels,
        ...     transform=data.transform,
        ...     recipes=Recipes(Recipe(epochs=2), Recipe(epochs=1)),
        ...     budget=Budget(8),
        ...     selection="herding",
        ...     image_shape=data.image_shape,
        ...     num_classes=4,
        ...     device=torch.device("cpu"),
        ... )
        >>> inputs, labels = next(setting.batches(data.train))
        >>> inputs.dtype, len(labels)
        (torch.float32, 32)
    """

    backbone: str
    channels: int
    transform: Transform
    recipes: Recipes
    budget: Budget
    selection: Selection
    image_shape: tuple[int, ...]
    num_classes: int
    device: torch.device
    execution: Execution = Execution()

    @property
    def image_bytes(self) -> int:
        """Size of one raw image."""
        return math.prod(self.image_shape)

    def batches(self, samples: Samples) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield normalised (not augmented) inputs and labels on the device, in the order of the samples.

        Args:
            samples: what to iterate over.
        """
        size = max(1, min(EVALUATION_BATCH, EVALUATION_PIXELS // math.prod(self.image_shape[1:])))
        labels = samples.labels.to(self.device)
        parts = torch.arange(len(samples)).split(size)
        ready = self.transform.batches(samples.inputs, parts, self.device)
        yield from zip(ready, labels.split(size), strict=True)
