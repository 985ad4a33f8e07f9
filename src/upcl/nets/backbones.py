"""Residual backbones: images (B x channels x H x W) in, pooled feature vectors (B x dim) out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from .extractors import StagedExtractor

Stem = Literal["3x3", "7x7"]
Shortcut = Literal["conv", "pad"]


class ConvNorm(nn.Sequential):
    """A convolution without bias, followed by batch norm.

    Args:
        num_in: input channels.
        num_out: output channels.
        kernel: kernel size.
        stride: stride of the convolution.
        conv: the kind of convolution; it is padded by half of the kernel, unless it decides otherwise.
        groups: groups of channels that are convolved separately.
        eps: what the batch norm adds to the variance.

    Example:
        >>> import torch
        >>> layer = ConvNorm(3, 8, kernel=3).eval()
        >>> images = torch.rand(1, 3, 4, 4)
        >>> before = layer(images)
        >>> layer.fold()
        >>> torch.allclose(layer(images), before, atol=1e-5)
        True
    """

    def __init__(
        self,
        num_in: int,
        num_out: int,
        kernel: int,
        stride: int = 1,
        *,
        conv: type[nn.Conv2d] = nn.Conv2d,
        groups: int = 1,
        eps: float = 1e-5,
    ) -> None:
        made = conv(num_in, num_out, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
        nn.init.kaiming_normal_(made.weight, mode="fan_out", nonlinearity="relu")
        super().__init__(made, nn.BatchNorm2d(num_out, eps=eps))

    def fold(self) -> None:
        """Merge the batch norm into the convolution, for inference."""
        conv, norm = self
        assert isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d)
        self[0], self[1] = fuse_conv_bn_eval(conv, norm), nn.Identity()


class PadShortcut(nn.Module):
    """The parameter-free shortcut for CIFAR (option A of He et al., CVPR 2016).

    Takes every second pixel and pads the new channels with zeros.

    Args:
        num_new: number of channels to add.

    Example:
        >>> import torch
        >>> PadShortcut(2)(torch.ones(1, 2, 4, 4)).shape
        torch.Size([1, 4, 2, 2])
    """

    def __init__(self, num_new: int) -> None:
        super().__init__()
        self.num_new = num_new

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.num_new // 2, self.num_new - self.num_new // 2))


class Block(nn.Module):
    """Basic residual block: two 3 x 3 convolutions.

    Args:
        num_in: input channels.
        num_out: output channels.
        stride: stride of the first convolution.
        shortcut: how the input is brought to another shape: a 1 x 1 convolution or zero padding.
        relu: apply the last ReLU; without it, the features are signed.

    Example:
        >>> import torch
        >>> Block(4, 8, stride=2, shortcut="conv", relu=True)(torch.rand(2, 4, 8, 8)).shape
        torch.Size([2, 8, 4, 4])
    """

    def __init__(self, num_in: int, num_out: int, stride: int, shortcut: Shortcut, relu: bool) -> None:
        super().__init__()
        self.first = ConvNorm(num_in, num_out, 3, stride)
        self.second = ConvNorm(num_out, num_out, 3)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or num_in != num_out:
            padded = shortcut == "pad"
            self.shortcut = PadShortcut(num_out - num_in) if padded else ConvNorm(num_in, num_out, 1, stride)
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(F.relu(self.first(x), inplace=True)) + self.shortcut(x)
        return F.relu(out, inplace=True) if self.relu else out


EXPANSION = 4  # of the channels, by the last convolution of a bottleneck


class Bottleneck(nn.Module):
    """The block of ResNet-50: 1 x 1 to fewer channels, 3 x 3 (with the stride), 1 x 1 to four times as many.

    Args:
        num_in: input channels.
        num_out: output channels.
        stride: stride of the 3 x 3 convolution.
        shortcut: must be "conv".
        relu: apply the last ReLU; without it, the features are signed.

    Example:
        >>> import torch
        >>> Bottleneck(4, 8, stride=2, shortcut="conv", relu=True)(torch.rand(2, 4, 8, 8)).shape
        torch.Size([2, 8, 4, 4])
    """

    def __init__(self, num_in: int, num_out: int, stride: int, shortcut: Shortcut, relu: bool) -> None:
        super().__init__()
        assert shortcut == "conv"
        inner = num_out // EXPANSION
        self.first = ConvNorm(num_in, inner, 1)
        self.second = ConvNorm(inner, inner, 3, stride)
        self.third = ConvNorm(inner, num_out, 1)
        changed = stride != 1 or num_in != num_out
        self.shortcut: nn.Module = ConvNorm(num_in, num_out, 1, stride) if changed else nn.Identity()
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.second(F.relu(self.first(x), inplace=True)), inplace=True)
        out = self.third(out) + self.shortcut(x)
        return F.relu(out, inplace=True) if self.relu else out


@dataclass(frozen=True)
class BackboneConfig:
    """The architecture of a residual backbone.

    Args:
        widths: channels of each stage, before a bottleneck's expansion.
        blocks: blocks per stage: one number for all stages, or one per stage.
        stem: "3x3" without pooling (small images) or "7x7" with max-pooling (ImageNet).
        shortcut: how shortcuts change shape, "conv" or "pad".
        bottleneck: use bottleneck blocks instead of basic ones.

    Example:
        >>> BackboneConfig((16, 32), 2, "3x3", "conv").dim
        32
        >>> list(BackboneConfig((16, 32), (1, 2), "3x3", "conv").plan())
        [(16, 16, 1), (16, 32, 2), (32, 32, 1)]
    """

    widths: Sequence[int]
    blocks: int | Sequence[int]
    stem: Stem
    shortcut: Shortcut
    bottleneck: bool = False

    @property
    def expansion(self) -> int:
        """Ratio of a block's output channels to the stage's width."""
        return EXPANSION if self.bottleneck else 1

    @property
    def dim(self) -> int:
        """Number of features."""
        return self.widths[-1] * self.expansion

    def blocks_per_stage(self) -> list[int]:
        """Return the number of blocks of each stage."""
        return [self.blocks] * len(self.widths) if isinstance(self.blocks, int) else list(self.blocks)

    def plan(self) -> Iterator[tuple[int, int, int]]:
        """Yield input channels, output channels and stride of each block."""
        before = self.widths[0]
        for i, (width, blocks) in enumerate(zip(self.widths, self.blocks_per_stage(), strict=True)):
            for j in range(blocks):
                yield before, width * self.expansion, 2 if i > 0 and j == 0 else 1
                before = width * self.expansion


class Backbone(StagedExtractor):
    """A residual network (He et al., Deep Residual Learning for Image Recognition, CVPR 2016) without a classifier.

    A stem, stages of residual blocks that halve the map and widen it, and a global average.

    Args:
        config: the architecture.
        channels: channels of the images.
        last_relu: apply the last ReLU; without it, the features are signed.

    Attributes:
        num_early: number of blocks before the last stage.

    Example:
        >>> import torch
        >>> backbone = Backbone(BackboneConfig((8, 16), 1, "3x3", "conv"), channels=3, last_relu=True)
        >>> backbone(torch.rand(2, 3, 8, 8)).shape
        torch.Size([2, 16])
    """

    def __init__(self, config: BackboneConfig, channels: int, last_relu: bool) -> None:
        super().__init__()
        width = config.widths[0]
        self.dim = config.dim
        if config.stem == "3x3":
            self.stem = nn.Sequential(ConvNorm(channels, width, 3), nn.ReLU(inplace=True))
        else:
            pool = nn.MaxPool2d(3, stride=2, padding=1)
            self.stem = nn.Sequential(ConvNorm(channels, width, 7, 2), nn.ReLU(inplace=True), pool)
        plan = list(config.plan())
        relu = [True] * (len(plan) - 1) + [last_relu]
        block = Bottleneck if config.bottleneck else Block
        self.blocks = nn.Sequential(*(block(*step, config.shortcut, r) for step, r in zip(plan, relu, strict=True)))
        self.ends = list(accumulate(config.blocks_per_stage()))

    def maps(self, images: Tensor) -> Tensor:
        maps: Tensor = self.blocks(self.stem(images))
        return maps

    def layers_by_stage(self) -> list[nn.Sequential]:
        blocks = list(self.blocks)
        stages = [nn.Sequential(*blocks[start:end]) for start, end in pairwise([0, *self.ends])]
        stages[0].insert(0, self.stem)
        return stages
