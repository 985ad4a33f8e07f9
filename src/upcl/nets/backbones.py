"""Residual backbones: images (B x channels x H x W) in, pooled feature vectors (B x dim) out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from upcl.core.errors import unknown_choice

Stem = Literal["3x3", "7x7"]
Shortcut = Literal["conv", "pad"]


class ConvNorm(nn.Sequential):
    """A convolution without bias and its batch norm; `fold` merges the two for inference."""

    def __init__(self, num_in: int, num_out: int, kernel: int, stride: int = 1) -> None:
        conv = nn.Conv2d(num_in, num_out, kernel, stride, padding=kernel // 2, bias=False)
        nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
        super().__init__(conv, nn.BatchNorm2d(num_out))

    def fold(self) -> None:
        conv, norm = self
        assert isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d)
        self[0], self[1] = fuse_conv_bn_eval(conv, norm), nn.Identity()


class PadShortcut(nn.Module):
    """Option A of He et al. for CIFAR: take every second pixel, pad the new channels with zeros. No parameters."""

    def __init__(self, num_new: int) -> None:
        super().__init__()
        self.num_new = num_new

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.num_new // 2, self.num_new - self.num_new // 2))


class Block(nn.Module):
    """Basic residual block. The last one of a backbone may leave its features signed (`last_relu=False`)."""

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


EXPANSION = 4  # of a bottleneck's last convolution


class Bottleneck(nn.Module):
    """1 x 1 to fewer channels, 3 x 3 (with the stride), 1 x 1 to four times as many: ResNet-50's block."""

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
    """What distinguishes one residual backbone from another. `blocks`: of every stage, or of each."""

    widths: Sequence[int]
    blocks: int | Sequence[int]
    stem: Stem
    shortcut: Shortcut
    bottleneck: bool = False

    @property
    def expansion(self) -> int:
        return EXPANSION if self.bottleneck else 1

    def stages(self) -> list[int]:
        """Blocks of each stage."""
        return [self.blocks] * len(self.widths) if isinstance(self.blocks, int) else list(self.blocks)

    def plan(self) -> Iterator[tuple[int, int, int]]:
        """Channels in, channels out and stride of each block."""
        before = self.widths[0]
        for i, (width, blocks) in enumerate(zip(self.widths, self.stages(), strict=True)):
            for j in range(blocks):
                yield before, width * self.expansion, 2 if i > 0 and j == 0 else 1
                before = width * self.expansion


BACKBONES: dict[str, BackboneConfig] = {
    "small": BackboneConfig((32, 64, 128), 1, "3x3", "conv"),  # for tiny images and quick runs: 128 features
    "medium": BackboneConfig((16, 64, 128, 256), 1, "3x3", "conv"),  # narrow where maps are large: 256 features
    "resnet32": BackboneConfig((16, 32, 64), 5, "3x3", "pad"),  # the CIFAR network of He et al.: 64 features
    "resnet18": BackboneConfig(
        (64, 128, 256, 512), 2, "3x3", "conv"
    ),  # no pooling after the stem (CIFAR): 512 features
    "resnet18-7x7": BackboneConfig((64, 128, 256, 512), 2, "7x7", "conv"),  # max-pooling after the stem (ImageNet)
    "resnet34-7x7": BackboneConfig((64, 128, 256, 512), (3, 4, 6, 3), "7x7", "conv"),
    "resnet50-7x7": BackboneConfig((64, 128, 256, 512), (3, 4, 6, 3), "7x7", "conv", bottleneck=True),  # 2,048 features
}


class FeatureExtractor(nn.Module, ABC):
    """What a network calls its backbone: images to pooled feature vectors of `dim` numbers."""

    dim: int

    @abstractmethod
    def forward(self, images: Tensor) -> Tensor: ...


class Backbone(FeatureExtractor):
    """A stem, stages of residual blocks that halve the map and widen it, and a global average."""

    def __init__(self, shape: BackboneConfig, channels: int, last_relu: bool) -> None:
        super().__init__()
        width = shape.widths[0]
        self.dim = shape.widths[-1] * shape.expansion
        if shape.stem == "3x3":
            self.stem = nn.Sequential(ConvNorm(channels, width, 3), nn.ReLU(inplace=True))
        else:
            pool = nn.MaxPool2d(3, stride=2, padding=1)
            self.stem = nn.Sequential(ConvNorm(channels, width, 7, 2), nn.ReLU(inplace=True), pool)
        plan = list(shape.plan())
        relu = [True] * (len(plan) - 1) + [last_relu]
        block = Bottleneck if shape.bottleneck else Block
        self.blocks = nn.Sequential(*(block(*step, shape.shortcut, r) for step, r in zip(plan, relu, strict=True)))

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.blocks(self.stem(images))
        return maps.mean((2, 3))


def make_backbone(name: str, channels: int = 3, last_relu: bool = True) -> Backbone:
    """A freshly initialised backbone by name."""
    if name not in BACKBONES:
        raise unknown_choice("backbone", name, BACKBONES)
    return Backbone(BACKBONES[name], channels, last_relu)
