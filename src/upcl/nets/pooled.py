"""A backbone for small images on CPUs: few convolutions, each followed by max-pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from .backbones import ConvNorm
from .extractors import StagedExtractor


@dataclass(frozen=True)
class PooledConfig:
    """The architecture of a pooled backbone.

    Args:
        widths: channels of each stage. All stages but the first halve the map by max-pooling.
        residual: indices of the stages that end with a residual block.
        dim: number of features, which a 1 x 1 convolution makes of the last stage's channels.

    Example:
        >>> PooledConfig((16, 32, 64, 128), residual=(3,), dim=256).dim
        256
    """

    widths: Sequence[int]
    residual: Sequence[int]
    dim: int


class ConvPool(nn.Module):
    """A 3 x 3 convolution, max-pooling, batch norm and ReLU: pooling first leaves the norm a quarter of the work.

    Args:
        num_in: input channels.
        num_out: output channels.

    Example:
        >>> import torch
        >>> ConvPool(4, 8)(torch.rand(2, 4, 8, 8)).shape
        torch.Size([2, 8, 4, 4])
    """

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(num_in, num_out, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_out", nonlinearity="relu")
        self.norm = nn.BatchNorm2d(num_out)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(F.max_pool2d(self.conv(x), 2, ceil_mode=True)), inplace=True)


class Residual(nn.Module):
    """Two 3 x 3 convolutions with batch norm and ReLU, added to their input.

    Args:
        width: channels.

    Example:
        >>> import torch
        >>> Residual(4)(torch.rand(2, 4, 8, 8)).shape
        torch.Size([2, 4, 8, 8])
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = ConvNorm(width, width, 3)
        self.second = ConvNorm(width, width, 3)

    def forward(self, x: Tensor) -> Tensor:
        return x + F.relu(self.second(F.relu(self.first(x), inplace=True)), inplace=True)


class PooledBackbone(StagedExtractor):
    """Few, early pooled convolutions: the most accuracy per second of a CPU (docs/performance.md).

    The shape follows the ResNet-9 of D. Page (How to Train Your ResNet, 2018): narrower, with more features, and an
    average instead of a maximum at the end.

    Args:
        config: the architecture.
        channels: channels of the images.
        last_relu: apply the last ReLU; without it, the features are signed.

    Example:
        >>> import torch
        >>> backbone = PooledBackbone(PooledConfig((8, 16), residual=(1,), dim=32), channels=3, last_relu=True)
        >>> backbone(torch.rand(2, 3, 8, 8)).shape
        torch.Size([2, 32])
    """

    def __init__(self, config: PooledConfig, channels: int, last_relu: bool) -> None:
        super().__init__()
        self.dim, self.last_relu = config.dim, last_relu
        self.stem = nn.Sequential(ConvNorm(channels, config.widths[0], 3), nn.ReLU(inplace=True))
        stages: list[nn.Module] = []
        for i, (before, width) in enumerate(pairwise(config.widths), start=1):
            stages.append(ConvPool(before, width))
            if i in config.residual:
                stages.append(Residual(width))
        self.stages = nn.Sequential(*stages)
        self.expand = ConvNorm(config.widths[-1], config.dim, 1)

    def maps(self, images: Tensor) -> Tensor:
        maps: Tensor = self.expand(self.stages(self.stem(images)))
        return F.relu(maps, inplace=True) if self.last_relu else maps

    def layers_by_stage(self) -> list[nn.Sequential]:
        stages: list[list[nn.Module]] = [[self.stem]]
        for layer in self.stages:
            if isinstance(layer, ConvPool):
                stages.append([])
            stages[-1].append(layer)
        stages[-1] += [self.expand, nn.ReLU(inplace=True) if self.last_relu else nn.Identity()]
        return [nn.Sequential(*layers) for layers in stages]
