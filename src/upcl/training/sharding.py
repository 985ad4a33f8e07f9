"""Division of every batch into logical shards, so that the number of processes does not change a single bit.

A shard passes through the backbone by itself, with its own batch-norm statistics. Gradients and statistics of shards
are added pairwise in a fixed tree, whichever process computed them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from upcl.data.io.crops import Photos

from .world import World

MIN_ROWS = 2  # of a shard: batch norm needs two
Compute = Callable[[Tensor], Tensor]


def divide_batch(num: int, shards: int) -> list[slice]:
    """Divide the rows of a batch; a small batch has fewer shards, half as many until each has two rows.

    Args:
        num: number of rows.
        shards: number of shards, a power of two.

    Example:
        >>> [(part.start, part.stop) for part in divide_batch(10, 4)]
        [(0, 3), (3, 6), (6, 8), (8, 10)]
        >>> len(divide_batch(7, 4)), len(divide_batch(1, 4))
        (2, 1)
    """
    while shards > 1 and num < MIN_ROWS * shards:
        shards //= 2
    share, rest = divmod(num, shards)
    starts = [k * share + min(k, rest) for k in range(shards + 1)]
    return [slice(start, stop) for start, stop in pairwise(starts)]


def add_pairwise(values: Sequence[Tensor]) -> Tensor:
    """Add tensors as the leaves of a balanced binary tree.

    Args:
        values: tensors of equal shape; their number is a power of two.

    Example:
        >>> add_pairwise([torch.tensor(1.0), torch.tensor(2.0), torch.tensor(3.0), torch.tensor(4.0)]).item()
        10.0
    """
    while len(values) > 1:
        values = [left + right for left, right in zip(values[::2], values[1::2], strict=True)]
    return values[0]


@dataclass(frozen=True)
class Sharding:
    """Executes a backbone shard by shard, each process its own, and gives every process the features of all.

    Args:
        shards: number of shards of a batch, a power of two.
        world: the processes, whose number divides that of the shards.

    Example:
        >>> from upcl.nets import make_backbone
        >>> backbone, images = make_backbone("small").eval(), torch.rand(5, 3, 8, 8)
        >>> features = Sharding(2)(backbone, backbone, images)
        >>> torch.allclose(features, backbone(images), atol=1e-6)
        True
    """

    shards: int
    world: World = World()

    def __call__(self, backbone: nn.Module, compute: Compute, images: Tensor) -> Tensor:
        """Compute the features of a complete batch; gradients are those of all shards.

        Args:
            backbone: the module whose parameters and statistics `compute` uses.
            compute: maps images to features.
            images: the batch, the same in every process.
        """
        part = _Part(self.world, divide_batch(len(images), self.shards))
        params = [p for p in backbone.parameters() if p.requires_grad] if torch.is_grad_enabled() else []
        if params:
            features: Tensor = _ShardedFeatures.apply(part, backbone, compute, images, *params)  # type: ignore[no-untyped-call]
            return features
        return part.join(part.forward(backbone, compute, images))


@dataclass(frozen=True)
class _Part:
    """What one process computes of a batch. With fewer shards than processes, neighbours compute the same."""

    world: World
    slices: list[slice]

    @property
    def stride(self) -> int:
        """Number of neighbouring processes that compute the same."""
        return max(1, self.world.size // len(self.slices))

    def own(self, rank: int) -> list[slice]:
        per_process = max(1, len(self.slices) // self.world.size)
        first = rank // self.stride * per_process
        return self.slices[first : first + per_process]

    def forward(self, backbone: nn.Module, compute: Compute, images: Tensor) -> list[Tensor]:
        """Features of the own shards. Running statistics become the mean of what they would be after each shard."""
        before = [buffer.clone() for buffer in backbone.buffers()] if backbone.training else []
        outputs, after = [], []
        for rows in self.own(self.world.rank):
            if before:
                _copy(before, list(backbone.buffers()))
            outputs.append(compute(images[rows]))
            if statistics := _statistics(backbone):
                after.append(torch.cat([buffer.flatten() for buffer in statistics]))
        if after:
            _copy(_unflatten(self.add(after) / len(self.slices), statistics), statistics)
        return outputs

    def join(self, outputs: Sequence[Tensor]) -> Tensor:
        """The rows of all shards, in the order of the batch."""
        lengths = [sum(s.stop - s.start for s in self.own(rank)) for rank in range(self.world.size)]
        return torch.cat(self.world.gather(torch.cat([o.detach() for o in outputs]), lengths)[:: self.stride])

    def add(self, values: Sequence[Tensor]) -> Tensor:
        """The sum over all shards: a tree whose lower part is in this process, and whose upper part spans processes."""
        total, distance = add_pairwise(values), self.stride
        while distance < self.world.size:
            total = total + self.world.exchange(total, self.world.rank ^ distance)
            distance *= 2
        return total


class _ShardedFeatures(torch.autograd.Function):
    """Features of all shards; the backward pass adds the gradients of the backbone over all shards."""

    @staticmethod
    def forward(
        ctx: Any, part: _Part, backbone: nn.Module, compute: Compute, images: Tensor, *params: Tensor
    ) -> Tensor:
        with torch.enable_grad():
            ctx.outputs = part.forward(backbone, compute, images)
        ctx.part, ctx.params = part, params
        return part.join(ctx.outputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        part, params, outputs = ctx.part, ctx.params, ctx.outputs
        ctx.outputs = None  # frees the graphs
        by_shard = [
            torch.autograd.grad(output, params, grad[rows], allow_unused=True)
            for output, rows in zip(outputs, part.own(part.world.rank), strict=True)
        ]
        used = [value is not None for value in by_shard[0]]
        flat = [torch.cat([g.flatten() for g in grads if g is not None]) for grads in by_shard]
        found = iter(_unflatten(part.add(flat), [p for p, is_used in zip(params, used, strict=True) if is_used]))
        return None, None, None, None, *(next(found) if is_used else None for is_used in used)


def _statistics(backbone: nn.Module) -> list[Tensor]:
    """What the forward pass in training changes; a module may replace its buffers, so they are listed every time."""
    return [buffer for buffer in backbone.buffers() if buffer.is_floating_point()] if backbone.training else []


def _unflatten(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    return [part.view_as(value) for part, value in zip(flat.split([v.numel() for v in like]), like, strict=True)]


def _copy(source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
    """Set running statistics behind autograd's back: batch norm saves them, but does not use them in training."""
    for value, tensor in zip(source, target, strict=True):
        tensor.data.copy_(value)


@dataclass(frozen=True)
class SharedPhotos(Photos):
    """Image files of which every process decodes its share; all processes get all pixels.

    Args:
        world: the processes.

    Example:
        >>> photos = SharedPhotos.over(Photos.from_files([], size=8, identity=""), World())
        >>> photos.size
        8
    """

    world: World = World()

    @staticmethod
    def over(photos: Photos, world: World) -> SharedPhotos:
        """Share the work of decoding.

        Args:
            photos: the files.
            world: the processes.
        """
        return SharedPhotos(**{f.name: getattr(photos, f.name) for f in dataclasses.fields(photos)}, world=world)

    def batches(self, positions: Tensor, batches: Sequence[Tensor], *, augment: bool) -> Iterator[Tensor]:
        """Decode and crop files batch by batch, as `Photos.batches` does.

        Args:
            positions: positions of files.
            batches: for each batch, indices into `positions`.
            augment: take random crops.

        Yields:
            uint8 images (B x C x size x size), one tensor per batch.
        """
        parts = [index.tensor_split(self.world.size) for index in batches]
        own = [part[self.world.rank] for part in parts]
        for images, part in zip(super().batches(positions, own, augment=augment), parts, strict=True):
            yield torch.cat(self.world.gather(images.contiguous(), [len(index) for index in part]))
