"""The network, a backbone with an optional projector and a growing head; and frozen copies as teachers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn

from .backbones import ConvNorm
from .extractors import FeatureExtractor
from .heads import Head

HeadT = TypeVar("HeadT", bound=Head)
Precision = Literal["float32", "bfloat16"]


class Sharding(Protocol):
    """Executes a backbone on the shards of a batch, as `upcl.training.sharding.Sharding` does.

    Example:
        >>> class Halves:
        ...     def __call__(self, backbone, compute, images):
        ...         return torch.cat([compute(half) for half in images.chunk(2)])
        >>> Execution(sharding=Halves()).precision
        'float32'
    """

    def __call__(self, backbone: nn.Module, compute: Callable[[Tensor], Tensor], images: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Execution:
    """How a backbone is executed. Heads and losses stay in float32 and uncompiled: they grow, and are cheap.

    Args:
        precision: "float32", or "bfloat16" by autocast.
        compiled: compile the backbone with `torch.compile`.
        sharding: divides batches into shards, perhaps among processes; None executes a batch as a whole.

    Example:
        >>> Execution(precision="bfloat16").compiled
        False
    """

    precision: Precision = "float32"
    compiled: bool = False
    sharding: Sharding | None = None


class Network(nn.Module, Generic[HeadT]):
    """A backbone, an optional projector and a growing head.

    Images become features (backbone), features become embeddings (projector, or the features themselves), and
    embeddings become scores (head).

    Args:
        backbone: the feature extractor.
        head: the classifier.
        projector: maps features to embeddings; by default the identity.

    Example:
        >>> from upcl.nets import LinearHead, make_backbone
        >>> backbone = make_backbone("small")
        >>> net = Network(backbone, LinearHead(backbone.dim))
        >>> net.grow(5)
        >>> net(torch.rand(2, 3, 8, 8)).shape
        torch.Size([2, 5])
    """

    head: HeadT

    def __init__(self, backbone: FeatureExtractor, head: HeadT, projector: nn.Module | None = None) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.projector = projector or nn.Identity()
        self.growth: list[int] = []
        self.execution = Execution()

    def set_execution(self, execution: Execution) -> None:
        """Execute the backbone in this way from now on, with a memory layout for fast convolutions; the state is
        unchanged.

        Args:
            execution: precision and compilation.
        """
        self.execution = execution
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if execution.compiled:
            self.backbone.compile()

    def features(self, images: Tensor) -> Tensor:
        """Compute backbone features, returned in float32 whatever the backbone computes in.

        Args:
            images: normalised images (B x channels x H x W), or features that were computed before (B x dim), which
                are returned as they are: a frozen backbone need not look at an image twice.
        """
        return images.float() if images.ndim == 2 else self.execute(self.backbone, images)

    def execute(self, compute: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        """Apply the backbone, or a part of it, in the network's precision and shards.

        Args:
            compute: maps images to features with the backbone's parameters.
            images: normalised images (B x channels x H x W).
        """
        if images.ndim == 4:
            images = images.contiguous(memory_format=torch.channels_last)
        if self.execution.precision == "bfloat16":
            compute = partial(_in_bfloat16, compute)
        if self.execution.sharding is None:
            return compute(images)
        return self.execution.sharding(self.backbone, compute, images)

    def classify(self, features: Tensor) -> Tensor:
        """Compute scores from features.

        Args:
            features: backbone features (B x dim).

        Returns:
            One score per class seen so far (B x C).
        """
        scores: Tensor = self.head(self.projector(features))
        return scores

    def embed(self, images: Tensor) -> Tensor:
        """Compute the embeddings that the head sees.

        Args:
            images: normalised images (B x channels x H x W).
        """
        embeddings: Tensor = self.projector(self.features(images))
        return embeddings

    def forward(self, images: Tensor) -> Tensor:
        """Compute scores from images.

        Args:
            images: normalised images (B x channels x H x W).
        """
        return self.classify(self.features(images))

    def grow(self, num_new: int) -> None:
        """Add the classes of one task to the head.

        Args:
            num_new: number of new classes.
        """
        self.head.grow(num_new)
        self.growth.append(num_new)

    @property
    def num_bytes(self) -> int:
        """Bytes of all parameters and buffers."""
        return sum(value.numel() * value.element_size() for value in self.state_dict().values())

    def regrow(self, growth: Sequence[int]) -> None:
        """Bring a new network to the shape of one that learned several tasks, to load its weights.

        Args:
            growth: number of classes of each task, as recorded in `growth` of the other network.
        """
        for num_new in growth:
            self.grow(num_new)


def _in_bfloat16(compute: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    with torch.autocast(images.device.type, torch.bfloat16):
        return compute(images).float()


def frozen_copy(net: Network[HeadT]) -> Network[HeadT]:
    """Copy a network as a frozen teacher: no gradients, evaluation mode, batch norms folded into the convolutions.

    Args:
        net: the network to copy; it is not changed.

    Example:
        >>> from upcl.nets import LinearHead, make_backbone
        >>> backbone = make_backbone("small")
        >>> teacher = frozen_copy(Network(backbone, LinearHead(backbone.dim)))
        >>> any(p.requires_grad for p in teacher.parameters())
        False
    """
    copied = copy.deepcopy(net).eval().requires_grad_(False)
    for module in copied.modules():
        if isinstance(module, ConvNorm):
            module.fold()
    copied.set_execution(net.execution)
    return copied
