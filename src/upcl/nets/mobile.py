"""Backbones of inverted residuals for photos: MobileNetV2 and EfficientNet-Lite."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .backbones import ConvNorm
from .extractors import StagedExtractor


@dataclass(frozen=True)
class MobileConfig:
    """The architecture of a network of inverted residuals.

    Args:
        stages: expansion, channels, blocks, stride and kernel size of each stage.
        same_padding: pad as TensorFlow does ("SAME"): with a stride of 2, rather below and to the right.
        eps: what batch norms add to the variance.
        stem: channels of the first convolution.
        dim: number of features, which a last 1 x 1 convolution computes.

    Example:
        >>> MobileConfig(((1, 16, 1, 1, 3), (6, 24, 2, 2, 3)), same_padding=False, eps=1e-5).dim
        1280
    """

    stages: Sequence[tuple[int, int, int, int, int]]
    same_padding: bool
    eps: float
    stem: int = 32
    dim: int = 1280


class SameConv2d(nn.Conv2d):
    """A convolution that divides the size of a map by its stride, rounding up: TensorFlow's padding "same".

    Where it takes one zero more after a map than before it, the kernel gets a zero before it instead, and padding is
    symmetric: to copy a large map into a larger one takes longer than to convolve it.

    Example:
        >>> SameConv2d(1, 1, kernel_size=3, stride=2)(torch.ones(1, 1, 4, 5)).shape
        torch.Size([1, 1, 2, 3])
    """

    def forward(self, x: Tensor) -> Tensor:
        sizes = zip(x.shape[2:], self.stride, self.kernel_size, strict=True)
        missing = [max((-(-n // stride) - 1) * stride + kernel - n, 0) for n, stride, kernel in sizes]
        weight = self.weight
        for dim, total in enumerate(missing, start=2):
            if total % 2:
                weight = torch.cat([torch.zeros_like(weight.narrow(dim, 0, 1)), weight], dim)
        padding = [(total + 1) // 2 for total in missing]
        return F.conv2d(x, weight, self.bias, self.stride, padding, groups=self.groups)


class MobileLayer(nn.Sequential):
    """A convolution, batch norm and, unless it is linear, ReLU6.

    Args:
        config: padding and batch norms.
        num_in: input channels.
        num_out: output channels.
        kernel: kernel size.
        stride: stride.
        depthwise: convolve each channel by itself.
        linear: no ReLU6.

    Example:
        >>> import torch
        >>> config = MobileConfig((), same_padding=True, eps=1e-3)
        >>> MobileLayer(config, 3, 8, kernel=3, stride=2)(torch.rand(1, 3, 6, 6)).shape
        torch.Size([1, 8, 3, 3])
    """

    def __init__(
        self,
        config: MobileConfig,
        num_in: int,
        num_out: int,
        kernel: int = 1,
        stride: int = 1,
        *,
        depthwise: bool = False,
        linear: bool = False,
    ) -> None:
        same = config.same_padding and stride > 1  # otherwise, padding is symmetric anyway
        conv, groups = SameConv2d if same else nn.Conv2d, num_in if depthwise else 1
        super().__init__(
            nn.Identity(),  # keeps the names of the weights of models that were stored when maps were padded here
            ConvNorm(num_in, num_out, kernel, stride, conv=conv, groups=groups, eps=config.eps),
            nn.Identity() if linear else nn.ReLU6(inplace=True),
        )


class InvertedResidual(nn.Module):
    """Expand by a 1 x 1 convolution, filter each channel, and project to few channels; added to the input if it fits.

    Args:
        config: padding and batch norms.
        num_in: input channels.
        num_out: output channels.
        expansion: factor of the channels in between.
        stride: stride of the filter.
        kernel: kernel size of the filter.

    Example:
        >>> import torch
        >>> config = MobileConfig((), same_padding=False, eps=1e-5)
        >>> InvertedResidual(config, 8, 8, expansion=6, stride=1, kernel=5)(torch.rand(2, 8, 4, 4)).shape
        torch.Size([2, 8, 4, 4])
    """

    def __init__(
        self, config: MobileConfig, num_in: int, num_out: int, expansion: int, stride: int, kernel: int
    ) -> None:
        super().__init__()
        inner = num_in * expansion
        self.expand = MobileLayer(config, num_in, inner) if expansion > 1 else nn.Identity()
        self.filter = MobileLayer(config, inner, inner, kernel, stride, depthwise=True)
        self.project = MobileLayer(config, inner, num_out, linear=True)
        self.is_residual = stride == 1 and num_in == num_out

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.project(self.filter(self.expand(x)))
        return x + out if self.is_residual else out


class MobileBackbone(StagedExtractor):
    """A network of inverted residuals without its classifier, made for pretrained weights.

    References:
        M. Sandler, A. Howard, M. Zhu, A. Zhmoginov and L.-C. Chen. MobileNetV2: Inverted Residuals and Linear
        Bottlenecks. CVPR 2018. M. Tan and Q. V. Le. EfficientNet: Rethinking Model Scaling for Convolutional Neural
        Networks. ICML 2019; its Lite variants have no squeeze-and-excitation, and ReLU6 instead of swish.

    Args:
        config: the architecture.
        channels: channels of the images.
        last_relu: apply the last ReLU6; without it, the features are signed.

    Example:
        >>> import torch
        >>> config = MobileConfig(((1, 8, 1, 1, 3), (2, 16, 2, 2, 3)), same_padding=True, eps=1e-3, stem=8, dim=32)
        >>> MobileBackbone(config, channels=3, last_relu=True)(torch.rand(2, 3, 16, 16)).shape
        torch.Size([2, 32])
    """

    def __init__(self, config: MobileConfig, channels: int, last_relu: bool) -> None:
        super().__init__()
        self.dim = config.dim
        self.stem = MobileLayer(config, channels, config.stem, kernel=3, stride=2)
        blocks, before = [], config.stem
        for expansion, width, num_blocks, stride, kernel in config.stages:
            for i in range(num_blocks):
                blocks.append(InvertedResidual(config, before, width, expansion, stride if i == 0 else 1, kernel))
                before = width
        self.blocks = nn.Sequential(*blocks)
        self.ends = list(accumulate(num_blocks for _, _, num_blocks, _, _ in config.stages))
        self.last = MobileLayer(config, before, config.dim, linear=not last_relu)

    def maps(self, images: Tensor) -> Tensor:
        maps: Tensor = self.last(self.blocks(self.stem(images)))
        return maps

    def layers_by_stage(self) -> list[nn.Sequential]:
        blocks = list(self.blocks)
        stages = [nn.Sequential(*blocks[start:end]) for start, end in pairwise([0, *self.ends])]
        stages[0].insert(0, self.stem)
        stages[-1].append(self.last)
        return stages


_EFFICIENTNET_LAYERS = {
    "_expand_conv": "expand.1.0",
    "_bn0": "expand.1.1",
    "_depthwise_conv": "filter.1.0",
    "_bn1": "filter.1.1",
    "_project_conv": "project.1.0",
    "_bn2": "project.1.1",
}
_EFFICIENTNET_ENDS = {"_conv_stem": "stem.1.0", "_bn0": "stem.1.1", "_conv_head": "last.1.0", "_bn1": "last.1.1"}


def rename_efficientnet(name: str) -> str:
    """Our name for a tensor of EfficientNet-PyTorch, or the name itself if it is not one of them.

    Args:
        name: the name in the file.

    Example:
        >>> rename_efficientnet("_blocks.3._bn1.running_mean")
        'blocks.3.filter.1.1.running_mean'
    """
    if found := re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name):
        block, layer, rest = found.groups()
        return f"blocks.{block}.{_EFFICIENTNET_LAYERS.get(layer, layer)}.{rest}"
    layer, _, rest = name.partition(".")
    return f"{_EFFICIENTNET_ENDS.get(layer, layer)}.{rest}"


def rename_mobilenet(name: str) -> str:
    """Our name for a tensor of torchvision's MobileNetV2, or the name itself if it is not one of them.

    Args:
        name: the name in the file.

    Example:
        >>> rename_mobilenet("features.1.conv.1.weight"), rename_mobilenet("features.2.conv.1.1.bias")
        ('blocks.0.project.1.0.weight', 'blocks.1.filter.1.1.bias')
    """
    if found := re.fullmatch(r"features\.(0|18)\.(\d)\.(\w+)", name):
        place, part, rest = found.groups()
        return f"{'stem' if place == '0' else 'last'}.1.{part}.{rest}"
    if not (found := re.fullmatch(r"features\.(\d+)\.conv\.([\d.]+)\.(\w+)", name)):
        return name
    block, place, rest = int(found[1]) - 1, found[2], found[3]
    layers = ["filter", "project"] if block == 0 else ["expand", "filter", "project"]  # the first does not expand
    first, _, part = place.partition(".")
    if part:
        return f"blocks.{block}.{layers[int(first)]}.1.{part}.{rest}"
    return f"blocks.{block}.project.1.{int(first) - (len(layers) - 1)}.{rest}"
