"""A slimmable residual backbone whose channels are rolled from task to task (ScrollNet)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from upcl.core.errors import UserError

from .backbones import BackboneConfig
from .extractors import FeatureExtractor


class Roll:
    """Which stored channels are in use, and in which order; shared by all layers of a backbone.

    With n groups, scroll s and w groups in use, effective channel j of C is the stored channel (j + s C / n) mod C, and
    only the first w C / n effective channels exist.

    Args:
        num_groups: number of equal groups of channels.

    Example:
        >>> roll = Roll(4)
        >>> roll.scroll, roll.width = 1, 3
        >>> roll.take(torch.arange(8)).tolist()
        [2, 3, 4, 5, 6, 7]
    """

    def __init__(self, num_groups: int) -> None:
        self.num_groups = num_groups
        self.scroll = 0
        self.width = num_groups

    def take(self, stored: Tensor, axis: int = 0) -> Tensor:
        """Return the effective channels of a stored tensor; contiguous, as oneDNN's kernels fail on views.

        Args:
            stored: the stored tensor.
            axis: the axis of the channels.
        """
        group = stored.shape[axis] // self.num_groups
        return stored.roll(-self.scroll * group, axis).narrow(axis, 0, self.width * group).contiguous()

    def put(self, effective: Tensor, stored: Tensor) -> Tensor:
        """Return a stored tensor with its effective channels (axis 0) replaced.

        Args:
            effective: new values of the effective channels.
            stored: the stored tensor; it is not changed.
        """
        group = len(stored) // self.num_groups
        rest = stored.roll(-self.scroll * group, 0)[len(effective) :]
        return torch.cat([effective, rest]).roll(self.scroll * group, 0)


class RolledNorm(nn.Module):
    """The batch norm of one width. Its values belong to stored channels, so they roll with the weights.

    Args:
        num: number of stored channels.

    Example:
        >>> roll = Roll(2)
        >>> roll.width = 1
        >>> RolledNorm(8)(torch.rand(2, 4, 3, 3), roll).shape
        torch.Size([2, 4, 3, 3])
    """

    mean: Tensor
    var: Tensor

    def __init__(self, num: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(num))
        self.bias = nn.Parameter(torch.zeros(num))
        self.register_buffer("mean", torch.zeros(num))
        self.register_buffer("var", torch.ones(num))

    def forward(self, maps: Tensor, roll: Roll) -> Tensor:
        """Normalise the effective channels.

        Args:
            maps: feature maps of the effective channels.
            roll: which channels are in use.
        """
        mean, var = roll.take(self.mean).clone(), roll.take(self.var).clone()
        weight, bias = roll.take(self.weight), roll.take(self.bias)
        out = F.batch_norm(maps, mean, var, weight, bias, training=self.training)
        if self.training:
            self.mean, self.var = roll.put(mean, self.mean), roll.put(var, self.var)
        return out


class SlimConvNorm(nn.Module):
    """A convolution of which a part is used, with one batch norm per width.

    Args:
        roll: which channels are in use.
        num_in: stored input channels.
        num_out: stored output channels.
        kernel: kernel size.
        stride: stride of the convolution.
        image: the input is an image, whose channels do not roll.

    Example:
        >>> roll = Roll(2)
        >>> layer = SlimConvNorm(roll, 4, 8, kernel=3)
        >>> roll.width = 1
        >>> layer(torch.rand(2, 2, 5, 5)).shape
        torch.Size([2, 4, 5, 5])
    """

    def __init__(
        self, roll: Roll, num_in: int, num_out: int, kernel: int, stride: int = 1, *, image: bool = False
    ) -> None:
        super().__init__()
        self.roll, self.stride, self.padding, self.image = roll, stride, kernel // 2, image
        self.weight = nn.Parameter(torch.empty(num_out, num_in, kernel, kernel))
        nn.init.kaiming_normal_(self.weight, mode="fan_out", nonlinearity="relu")
        self.norms = nn.ModuleList(RolledNorm(num_out) for _ in range(roll.num_groups))

    def forward(self, maps: Tensor) -> Tensor:
        weight = self.roll.take(self.weight, 0)
        weight = weight if self.image else self.roll.take(weight, 1)
        maps = F.conv2d(maps, weight, stride=self.stride, padding=self.padding)
        out: Tensor = self.norms[self.roll.width - 1](maps, self.roll)
        return out


class SlimBlock(nn.Module):
    """Basic residual block; a shortcut that changes shape is a convolution.

    Args:
        roll: which channels are in use.
        num_in: stored input channels.
        num_out: stored output channels.
        stride: stride of the first convolution.

    Example:
        >>> roll = Roll(2)
        >>> block = SlimBlock(roll, 4, 8, stride=2)
        >>> roll.width = 1
        >>> block(torch.rand(2, 2, 6, 6)).shape
        torch.Size([2, 4, 3, 3])
    """

    def __init__(self, roll: Roll, num_in: int, num_out: int, stride: int) -> None:
        super().__init__()
        self.first = SlimConvNorm(roll, num_in, num_out, 3, stride)
        self.second = SlimConvNorm(roll, num_out, num_out, 3)
        same = stride == 1 and num_in == num_out
        self.shortcut = nn.Identity() if same else SlimConvNorm(roll, num_in, num_out, 1, stride)

    def forward(self, maps: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.first(maps))) + self.shortcut(maps))


class SlimmableBackbone(FeatureExtractor):
    """A residual backbone that can run at several widths, with rolled channels (ScrollNet).

    Features are in the order of the stored channels, and zero where a channel is not in use.

    Args:
        config: the architecture; its blocks are basic ones with convolutional shortcuts.
        channels: channels of the images.
        num_groups: number of groups of channels, which must divide the widths.

    Raises:
        UserError: If the groups do not divide the widths.

    Example:
        >>> from upcl.nets.registry import RESNETS
        >>> backbone = SlimmableBackbone(RESNETS["small"], channels=3, num_groups=4)
        >>> features = backbone.at_width(torch.rand(2, 3, 8, 8), width=1)
        >>> features.shape, bool((features[:, 32:] == 0).all())
        (torch.Size([2, 128]), True)
    """

    def __init__(self, config: BackboneConfig, channels: int, num_groups: int) -> None:
        super().__init__()
        if any(width % num_groups for width in config.widths):
            raise UserError(f"{num_groups} sub-networks must divide the widths {tuple(config.widths)} of the backbone")
        self.roll = Roll(num_groups)
        self.dim = config.widths[-1]
        large = config.stem == "7x7"
        kernel, stride = (7, 2) if large else (3, 1)
        self.stem = SlimConvNorm(self.roll, channels, config.widths[0], kernel, stride, image=True)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1) if large else nn.Identity()
        self.blocks = nn.Sequential(*(SlimBlock(self.roll, *step) for step in config.plan()))

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.blocks(self.pool(F.relu(self.stem(images))))
        used = maps.mean((2, 3)).T
        return self.roll.put(used, used.new_zeros(self.dim, used.shape[1])).T

    def at_width(self, images: Tensor, width: int) -> Tensor:
        """Compute features with the sub-network of the first groups only.

        Args:
            images: normalised images (B x channels x H x W).
            width: number of groups in use.
        """
        self.roll.width = width
        try:
            return self(images)  # type: ignore[no-any-return]
        finally:
            self.roll.width = self.roll.num_groups

    def get_extra_state(self) -> Tensor:
        """Return the scroll, so that it is saved and loaded with the weights."""
        return torch.tensor(self.roll.scroll)

    def set_extra_state(self, state: Any) -> None:
        """Restore the scroll.

        Args:
            state: what `get_extra_state` returned.
        """
        self.roll.scroll = int(state)
