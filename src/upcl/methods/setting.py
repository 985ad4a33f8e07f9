"""What stands around a method."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from upcl.core.memory import Budget, Selection
from upcl.core.recipes import Recipes
from upcl.core.types import Samples
from upcl.data import Transform
from upcl.nets import Execution

EVALUATION_BATCH, EVALUATION_PIXELS = 512, 2**20  # whatever is reached first


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What stands around a method and is the same for every method: chosen by the protocol and the user."""

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
        return math.prod(self.image_shape)

    def batches(self, samples: Samples) -> Iterator[tuple[Tensor, Tensor]]:
        """Plain (not augmented) inputs and labels on the device, in the order of the samples."""
        size = max(1, min(EVALUATION_BATCH, EVALUATION_PIXELS // math.prod(self.image_shape[1:])))
        labels = samples.labels.to(self.device)
        parts = torch.arange(len(samples)).split(size)
        ready = self.transform.batches(samples.inputs, parts, self.device)
        yield from zip(ready, labels.split(size), strict=True)
