"""Backbones by name."""

from __future__ import annotations

import torch

from upcl.core.errors import unknown_choice

from .backbones import Backbone, BackboneConfig
from .extractors import FeatureExtractor
from .mobile import MobileBackbone, MobileConfig
from .pooled import PooledBackbone, PooledConfig
from .timm_backbone import PREFIX as TIMM
from .timm_backbone import TimmBackbone

RESNETS: dict[str, BackboneConfig] = {
    "small": BackboneConfig((32, 64, 128), 1, "3x3", "conv"),  # for tiny images and quick runs: 128 features
    "medium": BackboneConfig((16, 64, 128, 256), 1, "3x3", "conv"),  # narrow where maps are large: 256 features
    "resnet32": BackboneConfig((16, 32, 64), 5, "3x3", "pad"),  # the CIFAR network of He et al.: 64 features
    "resnet18": BackboneConfig((64, 128, 256, 512), 2, "3x3", "conv"),  # CIFAR, no pooling after the stem: 512 features
    "resnet18-7x7": BackboneConfig((64, 128, 256, 512), 2, "7x7", "conv"),  # ImageNet, max-pooling after the stem
    "resnet34-7x7": BackboneConfig((64, 128, 256, 512), (3, 4, 6, 3), "7x7", "conv"),
    "resnet50-7x7": BackboneConfig((64, 128, 256, 512), (3, 4, 6, 3), "7x7", "conv", bottleneck=True),  # 2,048 features
}
"""Residual networks by name."""

POOLED: dict[str, PooledConfig] = {
    "pooled": PooledConfig((16, 32, 64, 128), residual=(3,), dim=512),  # 32 pixels: most accuracy per CPU second
}
"""Pooled networks by name."""

MOBILE: dict[str, MobileConfig] = {  # stages: expansion, channels, blocks, stride, kernel
    "mobilenet-v2": MobileConfig(
        stages=(
            (1, 16, 1, 1, 3),
            (6, 24, 2, 2, 3),
            (6, 32, 3, 2, 3),
            (6, 64, 4, 2, 3),
            (6, 96, 3, 1, 3),
            (6, 160, 3, 2, 3),
            (6, 320, 1, 1, 3),
        ),
        same_padding=False,
        eps=1e-5,
    ),
    "efficientnet-lite0": MobileConfig(
        stages=(
            (1, 16, 1, 1, 3),
            (6, 24, 2, 2, 3),
            (6, 40, 2, 2, 5),
            (6, 80, 3, 2, 3),
            (6, 112, 3, 1, 5),
            (6, 192, 4, 2, 5),
            (6, 320, 1, 1, 3),
        ),
        same_padding=True,
        eps=1e-3,
    ),
}
"""Networks of inverted residuals by name, for photos: 1,280 features."""

BACKBONES: dict[str, BackboneConfig | PooledConfig | MobileConfig] = {**RESNETS, **POOLED, **MOBILE}
"""All architectures by name."""


def make_backbone(name: str, channels: int = 3, last_relu: bool = True) -> FeatureExtractor:
    """Create a freshly initialised backbone by name.

    Args:
        name: a key of `BACKBONES`, or `timm:NAME`.
        channels: channels of the images: 3, or 1 for grey images.
        last_relu: apply the last ReLU; without it, the features are signed. Networks of timm stay as they are.

    Raises:
        UserError: If there is no such backbone.

    Example:
        >>> import torch
        >>> backbone = make_backbone("small", channels=1)
        >>> backbone(torch.rand(2, 1, 8, 8)).shape
        torch.Size([2, 128])
    """
    if name.startswith(TIMM):
        return TimmBackbone(name.removeprefix(TIMM), channels)
    if name not in BACKBONES:
        raise unknown_choice("backbone", name, BACKBONES)
    if name in POOLED:
        return PooledBackbone(POOLED[name], channels, last_relu)
    if name in MOBILE:
        return MobileBackbone(MOBILE[name], channels, last_relu)
    return Backbone(RESNETS[name], channels, last_relu)


def num_features(name: str) -> int:
    """The number of features that a backbone computes.

    Args:
        name: a key of `BACKBONES`, or `timm:NAME`.

    Raises:
        UserError: If there is no such backbone.

    Example:
        >>> num_features("efficientnet-lite0")
        1280
    """
    if name in BACKBONES:
        return BACKBONES[name].dim
    with torch.device("meta"):  # no memory, no initialisation
        return make_backbone(name).dim
