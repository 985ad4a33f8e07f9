"""Backbones by name."""

from __future__ import annotations

from upcl.core.errors import unknown_choice

from .backbones import Backbone, BackboneConfig, FeatureExtractor
from .pooled import PooledBackbone, PooledConfig

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

BACKBONES: dict[str, BackboneConfig | PooledConfig] = {**RESNETS, **POOLED}
"""All architectures by name."""


def make_backbone(name: str, channels: int = 3, last_relu: bool = True) -> FeatureExtractor:
    """Create a freshly initialised backbone by name.

    Args:
        name: a key of `BACKBONES`.
        channels: channels of the images: 3, or 1 for grey images.
        last_relu: apply the last ReLU; without it, the features are signed.

    Raises:
        UserError: If there is no such backbone.

    Example:
        >>> import torch
        >>> backbone = make_backbone("small", channels=1)
        >>> backbone(torch.rand(2, 1, 8, 8)).shape
        torch.Size([2, 128])
    """
    if name not in BACKBONES:
        raise unknown_choice("backbone", name, BACKBONES)
    if name in POOLED:
        return PooledBackbone(POOLED[name], channels, last_relu)
    return Backbone(RESNETS[name], channels, last_relu)
