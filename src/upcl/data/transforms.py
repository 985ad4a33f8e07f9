"""Augmentation of whole batches on the device the images are on: no Python work for each image.

Operations are drawn from torch's global generator, one value for each image. Those that only move pixels take uint8 or
float; those that compute take and return float in [0, 1].
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

from upcl.data.io.crops import Photos


class Augmentation(Protocol):
    """A random change of a batch of images. `to_json` is its part of a run's identity: class names are not."""

    def __call__(self, images: Tensor) -> Tensor: ...

    def to_json(self) -> dict[str, Any]: ...


def as_float(images: Tensor) -> Tensor:
    return images.float() / 255 if images.dtype == torch.uint8 else images


@dataclass(frozen=True)
class PadCrop:
    """Pad with zeros on every side and cut the old size out at a random place."""

    pad: int

    def __call__(self, images: Tensor) -> Tensor:
        num, _, height, width = images.shape
        shifts = torch.randint(0, 2 * self.pad + 1, (2, num), device=images.device)
        padded = F.pad(images, (self.pad,) * 4)
        windows = padded.unfold(2, height, 1).unfold(3, width, 1)
        return windows[torch.arange(num, device=images.device), :, shifts[0], shifts[1]]

    def to_json(self) -> dict[str, Any]:
        return {"name": "pad_crop", "pad": self.pad}


@dataclass(frozen=True)
class Flip:
    """Mirror left and right with this probability."""

    probability: float = 0.5

    def __call__(self, images: Tensor) -> Tensor:
        chosen = torch.rand(len(images), device=images.device) < self.probability
        return torch.where(chosen[:, None, None, None], images.flip(3), images)

    def to_json(self) -> dict[str, Any]:
        return {"name": "flip", "probability": self.probability}


@dataclass(frozen=True)
class Brightness:
    """Multiply by a factor in [1 - strength, 1 + strength] and clip."""

    strength: float

    def __call__(self, images: Tensor) -> Tensor:
        factor = 1 + self.strength * (2 * torch.rand(len(images), 1, 1, 1, device=images.device) - 1)
        return (as_float(images) * factor).clamp(0, 1)

    def to_json(self) -> dict[str, Any]:
        return {"name": "brightness", "strength": self.strength}


@dataclass(frozen=True)
class RandomResizedCrop:
    """Cut a box of random area and aspect out and resize it (bilinear) to `size` x `size`.

    The box is drawn as in Inception: area share uniform in `scale`, log aspect uniform in `ratio`. A box that does not
    fit is clipped to the image instead of being drawn again, so that the batch needs no loop.
    """

    size: int
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def boxes(self, num: int, height: int, width: int, device: torch.device) -> Tensor:
        """(num x 4) whole numbers: top, left, height, width."""
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
        return {"name": "random_resized_crop", "size": self.size, "scale": list(self.scale), "ratio": list(self.ratio)}


def crop_and_resize(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """Cut a box out of each image and resize it bilinearly, without looking past the box's own border."""
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
    """uint8 images to normalised floats: `train` augments, `test` does not. `photos` decodes what is not kept."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    augmentations: tuple[Augmentation, ...] = ()
    photos: Photos | None = None

    def batches(
        self, inputs: Tensor, batches: Sequence[Tensor], device: torch.device, *, augment: bool = False
    ) -> Iterator[Tensor]:
        """What a network is given for each batch of positions in `inputs`. Feature vectors are taken as they are."""
        if inputs.is_floating_point():
            yield from (inputs[index] for index in batches)
            return
        raw = self.photos.batches(inputs, batches, augment=augment) if self.photos else (inputs[i] for i in batches)
        for images in raw:
            images = images.to(device, non_blocking=True)
            yield self.train(images) if augment else self.test(images)

    def train(self, images: Tensor) -> Tensor:
        for augment in self.augmentations:
            images = augment(images)
        return self.test(images)

    def test(self, images: Tensor) -> Tensor:
        images = as_float(images)
        mean, std = _statistics(self.mean, self.std, images.device)
        return (images - mean) / std

    def untest(self, inputs: Tensor) -> Tensor:
        """The uint8 images behind inputs that `test` made."""
        mean, std = _statistics(self.mean, self.std, inputs.device)
        return ((inputs * std + mean) * 255).round().clamp(0, 255).to(torch.uint8)

    def to_json(self) -> dict[str, Any]:
        """Everything that decides what a network is given, by names that do not depend on the code's."""
        return {
            "mean": list(self.mean),
            "std": list(self.std),
            "augmentations": [augment.to_json() for augment in self.augmentations],
            "photos": self.photos.to_json() if self.photos else None,
        }


@lru_cache(maxsize=16)
def _statistics(mean: tuple[float, ...], std: tuple[float, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Kept on the device: building them for each batch would wait for it."""
    return (torch.tensor(mean, device=device)[:, None, None], torch.tensor(std, device=device)[:, None, None])
