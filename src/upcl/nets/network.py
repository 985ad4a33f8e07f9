"""A backbone, an optional linear projector and a growing head; and the frozen copy that teaches."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from .backbones import ConvNorm, Features
from .heads import Head

HeadT = TypeVar("HeadT", bound=Head)


class Network(nn.Module, Generic[HeadT]):
    """images -> features (backbone) -> embeddings (projector, or the features themselves) -> scores (head)."""

    head: HeadT

    def __init__(self, backbone: Features, head: HeadT, projector: nn.Module | None = None) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.projector = projector or nn.Identity()
        self.growth: list[int] = []

    def features(self, images: Tensor) -> Tensor:
        features: Tensor = self.backbone(images.contiguous(memory_format=torch.channels_last))
        return features

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


def frozen(net: Network[HeadT]) -> Network[HeadT]:
    """A copy without gradient, in evaluation mode, its batch norms folded into the convolutions."""
    copied = copy.deepcopy(net).eval().requires_grad_(False)
    for module in copied.modules():
        if isinstance(module, ConvNorm):
            module.fold()
    return copied
