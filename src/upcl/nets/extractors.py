"""What a backbone is: images to features, perhaps as the average of a map, perhaps by stages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class FeatureExtractor(nn.Module, ABC):
    """Base class of backbones: images to pooled feature vectors.

    Attributes:
        dim: number of features.

    Example:
        >>> import torch
        >>> class Pixels(FeatureExtractor):
        ...     dim = 3 * 8 * 8
        ...
        ...     def forward(self, images: Tensor) -> Tensor:
        ...         return images.flatten(1)
        >>> Pixels()(torch.rand(2, 3, 8, 8)).shape
        torch.Size([2, 192])
    """

    dim: int

    @abstractmethod
    def forward(self, images: Tensor) -> Tensor:
        """Compute features.

        Args:
            images: normalised images (B x channels x H x W).

        Returns:
            Features (B x dim).
        """


class MapExtractor(FeatureExtractor):
    """Base class of backbones whose features are the average over the places of a map.

    Example:
        >>> import torch
        >>> class Colours(MapExtractor):
        ...     dim = 3
        ...
        ...     def maps(self, images: Tensor) -> Tensor:
        ...         return images
        >>> Colours()(torch.ones(2, 3, 8, 8)).tolist()
        [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """

    @abstractmethod
    def maps(self, images: Tensor) -> Tensor:
        """Compute the features of each place.

        Args:
            images: normalised images (B x channels x H x W).

        Returns:
            Maps (B x dim x h x w).
        """

    def forward(self, images: Tensor) -> Tensor:
        return self.maps(images).mean((2, 3))


class LastStage(MapExtractor):
    """The last stage of a backbone: maps of the stages before it to features.

    Args:
        layers: the stage.
        dim: number of features.

    Example:
        >>> import torch
        >>> LastStage(nn.Conv2d(4, 8, 3), dim=8)(torch.rand(2, 4, 6, 6)).shape
        torch.Size([2, 8])
    """

    def __init__(self, layers: nn.Module, dim: int) -> None:
        super().__init__()
        self.layers, self.dim = layers, dim

    def maps(self, images: Tensor) -> Tensor:
        maps: Tensor = self.layers(images)
        return maps


class StagedExtractor(MapExtractor):
    """Base class of backbones that show the map after each of their stages, not only the last one.

    Example:
        >>> import torch
        >>> from upcl.nets import make_backbone
        >>> backbone = make_backbone("small")
        >>> [tuple(maps.shape[1:]) for maps in backbone.stage_maps(torch.rand(2, 3, 8, 8))]
        [(32, 8, 8), (64, 4, 4), (128, 2, 2)]
    """

    @abstractmethod
    def layers_by_stage(self) -> list[nn.Sequential]:
        """Return the layers of each stage; one after the other, they compute what `maps` does."""

    def stage_maps(self, images: Tensor) -> list[Tensor]:
        """Compute the map after each stage; the last one is that of `maps`.

        Args:
            images: normalised images (B x channels x H x W).
        """
        maps = list(accumulate(self.layers_by_stage(), lambda before, layers: layers(before), initial=images))
        return maps[1:]

    def divide(self) -> tuple[nn.Module, LastStage]:
        """Divide the backbone into what computes the maps of its earlier stages, and its last stage.

        Both parts share their layers with the backbone.
        """
        *earlier, last = self.layers_by_stage()
        return nn.Sequential(*earlier), LastStage(last, self.dim)


def pool_map(maps: Tensor) -> Tensor:
    """Sum the squares of a map over its rows and over its columns (POD-spatial).

    Args:
        maps: maps (B x c x h x w).

    Returns:
        One vector of unit length per image (B x c (h + w)), in float32 at least.

    Example:
        >>> pool_map(torch.tensor([[[[1.0, 1.0], [1.0, 1.0]]]])).tolist()
        [[0.5, 0.5, 0.5, 0.5]]
    """
    squares = (maps if maps.dtype == torch.float64 else maps.float()).square()
    return F.normalize(torch.cat([squares.sum(3).flatten(1), squares.sum(2).flatten(1)], 1))
