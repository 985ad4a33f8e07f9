"""Augmentation and normalisation of complete batches, on the device of the images: no Python work per image.

Augmentations draw one value per image from torch's global generator. Those that only move pixels accept uint8 or float;
those that compute return float in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from .io.crops import Photos


class Augmentation(Protocol):
    """Random change of a batch of images.

    Any callable with a `to_json` method will do.

    Example:
        >>> class Invert:
        ...     def __call__(self, images):
        ...         return 255 - images
        ...     def to_json(self):
        ...         return {"name": "invert"}
        >>> transform = Transform(mean=(0.0,), std=(1.0,), augmentations=(Invert(),))
        >>> transform.train(torch.zeros(1, 1, 1, 1, dtype=torch.uint8)).item()
        1.0
    """

    def __call__(self, images: Tensor) -> Tensor: ...

    def to_json(self) -> dict[str, Any]:
        """The name and the parameters, as part of a run's identity; they do not depend on names in the code."""


def as_float(images: Tensor) -> Tensor:
    """Convert uint8 images to float in [0, 1]; float images are returned unchanged.

    Args:
        images: images of any shape.

    Example:
        >>> as_float(torch.tensor([0, 51, 255], dtype=torch.uint8))
        tensor([0.0000, 0.2000, 1.0000])
    """
    return images.float() / 255 if images.dtype == torch.uint8 else images


@dataclass(frozen=True)
class PadCrop:
    """Pad with zeros on every side and crop the original size at a random position.

    Args:
        pad: number of pixels on each side.

    Example:
        >>> PadCrop(4)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 3, 32, 32])
    """

    pad: int

    def __call__(self, images: Tensor) -> Tensor:
        num, _, height, width = images.shape
        shifts = torch.randint(0, 2 * self.pad + 1, (2, num), device=images.device)
        padded = F.pad(images, (self.pad,) * 4)
        windows = padded.unfold(2, height, 1).unfold(3, width, 1)
        return windows[torch.arange(num, device=images.device), :, shifts[0], shifts[1]]

    def to_json(self) -> dict[str, Any]:
        """The name and the parameters, as part of a run's identity."""
        return {"name": "pad_crop", "pad": self.pad}


@dataclass(frozen=True)
class Flip:
    """Flip images horizontally at random.

    Args:
        probability: share of the images that are flipped.

    Example:
        >>> Flip(probability=1)(torch.tensor([[[[1, 2, 3]]]])).tolist()
        [[[[3, 2, 1]]]]
    """

    probability: float = 0.5

    def __call__(self, images: Tensor) -> Tensor:
        chosen = torch.rand(len(images), device=images.device) < self.probability
        return torch.where(chosen[:, None, None, None], images.flip(3), images)

    def to_json(self) -> dict[str, Any]:
        """The name and the parameters, as part of a run's identity."""
        return {"name": "flip", "probability": self.probability}


@dataclass(frozen=True)
class Brightness:
    """Multiply each image by a random factor and clip the result to [0, 1].

    Args:
        strength: the factor is drawn from [1 - strength, 1 + strength].

    Example:
        >>> bright = Brightness(0.5)(torch.full((100, 1, 1, 1), 0.5))
        >>> bool((bright >= 0.25).all() and (bright <= 0.75).all())
        True
    """

    strength: float

    def __call__(self, images: Tensor) -> Tensor:
        factor = 1 + self.strength * (2 * torch.rand(len(images), 1, 1, 1, device=images.device) - 1)
        return (as_float(images) * factor).clamp(0, 1)

    def to_json(self) -> dict[str, Any]:
        """The name and the parameters, as part of a run's identity."""
        return {"name": "brightness", "strength": self.strength}


@dataclass(frozen=True)
class RandomResizedCrop:
    """Crop a box of random area and aspect ratio and resize it bilinearly.

    The box is drawn as in Inception: the share of the area is uniform in `scale`, the logarithm of the aspect ratio is
    uniform in the logarithms of `ratio`. A box that does not fit is clipped to the image instead of being drawn again,
    so the batch needs no loop.

    Args:
        size: height and width of the result.
        scale: range of the share of the image's area that the box covers.
        ratio: range of the aspect ratio, width / height.

    Example:
        >>> RandomResizedCrop(8)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 3, 8, 8])
    """

    size: int
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def boxes(self, num: int, height: int, width: int, device: torch.device) -> Tensor:
        """Draw boxes.

        Args:
            num: number of boxes.
            height: height of the images.
            width: width of the images.
            device: where to draw them.

        Returns:
            Integral values (num x 4): top, left, height, width.

        Example:
            >>> RandomResizedCrop(8, scale=(1, 1), ratio=(1, 1)).boxes(1, 32, 32, torch.device("cpu"))
            tensor([[ 0.,  0., 32., 32.]])
        """
        draws = torch.rand(4, num, device=device)
        area = height * width * (self.scale[0] + draws[0] * (self.scale[1] - self.scale[0]))
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        aspect = (low + draws[1] * (high - low)).exp()
        tall = (area / aspect).sqrt().round().clamp(1, height)
        wide = (area * aspect).sqrt().round().clamp(1, width)
        top = (draws[2] * (height - tall + 1)).floor()
        left = (draws[3] * (width - wide + 1)).floor()
        return torch.stack([top, left, tall, wide], 1)

    def __call__(self, images: Tensor) -> Tensor:
        height, width = images.shape[2:]
        boxes = self.boxes(len(images), height, width, images.device)
        return crop_and_resize(as_float(images), boxes, self.size)

    def to_json(self) -> dict[str, Any]:
        """The name and the parameters, as part of a run's identity."""
        return {"name": "random_resized_crop", "size": self.size, "scale": list(self.scale), "ratio": list(self.ratio)}


def crop_and_resize(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """Crop a box from each image and resize it bilinearly, without looking beyond the border of the box.

    Args:
        images: float images (N x C x H x W).
        boxes: one box per image (N x 4): top, left, height, width.
        size: height and width of the result.

    Example:
        >>> image = torch.arange(16.0).reshape(1, 1, 4, 4)
        >>> crop_and_resize(image, torch.tensor([[2, 2, 2, 2]]), size=2).round()
        tensor([[[[10., 11.],
                  [14., 15.]]]])
    """
    top, left, tall, wide = (column[:, None] for column in boxes.to(images.dtype).T)
    centres = (torch.arange(size, device=images.device, dtype=images.dtype) + 0.5) / size
    height, width = images.shape[2:]
    rows = top + (centres * tall - 0.5).clamp(min=0).minimum(tall - 1)
    columns = left + (centres * wide - 0.5).clamp(min=0).minimum(wide - 1)
    y = (2 * rows + 1) / height - 1
    x = (2 * columns + 1) / width - 1
    grid = torch.stack(torch.broadcast_tensors(x[:, None, :], y[:, :, None]), 3)
    return F.grid_sample(images, grid, mode="bilinear", align_corners=False)


@dataclass(frozen=True)
class Transform:
    """From uint8 images to normalised floats.

    Args:
        mean: mean per channel, of values in [0, 1].
        std: standard deviation per channel.
        augmentations: applied in this order, in training only.
        photos: decodes images that stay in their files.

    Example:
        >>> transform = Transform(mean=(0.5,), std=(0.25,), augmentations=(Flip(),))
        >>> transform.test(torch.full((1, 1, 1, 1), 255, dtype=torch.uint8)).item()
        2.0
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    augmentations: tuple[Augmentation, ...] = ()
    photos: Photos | None = None

    def batches(
        self, inputs: Tensor, batches: Sequence[Tensor], device: torch.device, *, augment: bool = False
    ) -> Iterator[Tensor]:
        """Prepare batches for a network.

        Args:
            inputs: uint8 images, positions of files for `photos`, or float feature vectors, which are not changed.
            batches: for each batch, indices into `inputs`.
            device: where images are transformed.
            augment: apply the augmentations.

        Yields:
            The normalised images of each batch.

        Example:
            >>> transform = Transform(mean=(0.5,), std=(0.5,))
            >>> images = torch.tensor([0, 255], dtype=torch.uint8).reshape(2, 1, 1, 1)
            >>> [batch.item() for batch in transform.batches(images, [torch.tensor([1])], torch.device("cpu"))]
            [1.0]
        """
        if inputs.is_floating_point():
            yield from (inputs[index] for index in batches)
            return
        raw = self.photos.batches(inputs, batches, augment=augment) if self.photos else (inputs[i] for i in batches)
        for images in raw:
            images = images.to(device, non_blocking=True)
            yield self.train(images) if augment else self.test(images)

    def train(self, images: Tensor) -> Tensor:
        """Augment and normalise images.

        Args:
            images: uint8 images (N x C x H x W).
        """
        for augment in self.augmentations:
            images = augment(images)
        return self.test(images)

    def test(self, images: Tensor) -> Tensor:
        """Normalise images.

        Args:
            images: uint8 images, or float images in [0, 1] (N x C x H x W).
        """
        images = as_float(images)
        mean, std = _statistics(self.mean, self.std, images.device)
        return (images - mean) / std

    def denormalise(self, inputs: Tensor) -> Tensor:
        """Recover the uint8 images from the output of `test`.

        Args:
            inputs: normalised images (N x C x H x W).

        Example:
            >>> transform = Transform(mean=(0.5,), std=(0.25,))
            >>> image = torch.tensor([[[[0, 100, 255]]]], dtype=torch.uint8)
            >>> torch.equal(transform.denormalise(transform.test(image)), image)
            True
        """
        mean, std = _statistics(self.mean, self.std, inputs.device)
        return ((inputs * std + mean) * 255).round().clamp(0, 255).to(torch.uint8)

    def to_json(self) -> dict[str, Any]:
        """Everything that determines what a network is given, as part of a run's identity."""
        return {
            "mean": list(self.mean),
            "std": list(self.std),
            "augmentations": [augment.to_json() for augment in self.augmentations],
            "photos": self.photos.to_json() if self.photos else None,
        }


@lru_cache(maxsize=16)
def _statistics(mean: tuple[float, ...], std: tuple[float, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Kept on the device: creating them for each batch would wait for it."""
    return (torch.tensor(mean, device=device)[:, None, None], torch.tensor(std, device=device)[:, None, None])
