"""A backbone, an optional linear projector and a growing head; and the frozen copy that teaches."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import torch
from torch import Tensor, nn

from .backbones import ConvNorm, FeatureExtractor
from .heads import Head

HeadT = TypeVar("HeadT", bound=Head)
Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Execution:
    """How a backbone is run. Heads and losses stay in float32 and uncompiled: they grow, and are cheap."""

    precision: Precision = "float32"
    compiled: bool = False


class Network(nn.Module, Generic[HeadT]):
    """images -> features (backbone) -> embeddings (projector, or the features themselves) -> scores (head)."""

    head: HeadT

    def __init__(self, backbone: FeatureExtractor, head: HeadT, projector: nn.Module | None = None) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.projector = projector or nn.Identity()
        self.growth: list[int] = []
        self.execution = Execution()

    def set_execution(self, execution: Execution) -> None:
        """Lay the backbone out for fast convolutions and run it so from now on; nothing of its state changes."""
        self.execution = execution
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if execution.compiled:
            self.backbone.compile()

    def features(self, images: Tensor) -> Tensor:
        """Backbone features in float32, whatever the backbone computes in."""
        images = images.contiguous(memory_format=torch.channels_last)
        if self.execution.precision == "float32":
            features: Tensor = self.backbone(images)
            return features
        with torch.autocast(images.device.type, torch.bfloat16):
            features = self.backbone(images)
        return features.float()

    def classify(self, features: Tensor) -> Tensor:
        scores: Tensor = self.head(self.projector(features))
        return scores

    def embed(self, images: Tensor) -> Tensor:
        embeddings: Tensor = self.projector(self.features(images))
        return embeddings

    def forward(self, images: Tensor) -> Tensor:
        return self.classify(self.features(images))

    def grow(self, num_new: int) -> None:
        """Add the classes of one task to the head."""
        self.head.grow(num_new)
        self.growth.append(num_new)

    def regrow(self, growth: Sequence[int]) -> None:
        """Bring a new network to the shape of one that learned tasks of these sizes, to load its weights."""
        for num_new in growth:
            self.grow(num_new)


def frozen_copy(net: Network[HeadT]) -> Network[HeadT]:
    """A copy without gradient, in evaluation mode, its batch norms folded into the convolutions."""
    copied = copy.deepcopy(net).eval().requires_grad_(False)
    for module in copied.modules():
        if isinstance(module, ConvNorm):
            module.fold()
    copied.set_execution(net.execution)
    return copied
