"""Augmentations that a recipe adds to those of the data set: TrivialAugment and random erasing, on complete batches."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.recipes import Recipe

from .transforms import Augmentation, Transform, as_float

OPERATIONS = (
    "identity",
    "rotate",
    "shear_x",
    "shear_y",
    "translate_x",
    "translate_y",
    "brightness",
    "color",
    "contrast",
    "sharpness",
    "autocontrast",
    "posterize",
    "solarize",
)
MAX_ANGLE = math.radians(30)
MAX_SHEAR = 0.3
MAX_SHIFT = 0.625  # of half the image's side: 10 of 32 pixels
MAX_BLEND = 0.9  # brightness, colour, contrast and sharpness change by a factor in [0.1, 1.9]
MIN_BITS, MAX_BITS = 4, 8
GREY = (0.299, 0.587, 0.114)


@dataclass(frozen=True)
class TrivialAugment:
    """Apply one random operation of random strength to each image.

    Müller and Hutter, TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation, ICCV 2021, with the ranges of
    RandAugment and without histogram equalisation. All images of a batch are moved by one resampling and recoloured
    by one blend, whatever their operations are.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> images = torch.rand(8, 3, 16, 16)
        >>> augmented = TrivialAugment()(images)
        >>> augmented.shape, bool(augmented.min() >= 0 and augmented.max() <= 1)
        (torch.Size([8, 3, 16, 16]), True)
    """

    def __call__(self, images: Tensor) -> Tensor:
        images = as_float(images)
        num, device = len(images), images.device
        operation = torch.randint(0, len(OPERATIONS), (num,), device=device)
        strength = torch.rand(num, device=device)
        sign = 2.0 * torch.randint(0, 2, (num,), device=device) - 1
        return self.apply(images, operation, strength, sign)

    def apply(self, images: Tensor, operation: Tensor, strength: Tensor, sign: Tensor) -> Tensor:
        """Apply given operations.

        Args:
            images: float images in [0, 1] (N x C x H x W).
            operation: an index into `OPERATIONS` for each image (N).
            strength: between 0, which changes nothing or least, and 1 (N).
            sign: the direction of the change, 1 or -1 (N).

        Example:
            >>> dark = TrivialAugment().apply(
            ...     torch.full((1, 1, 2, 2), 0.5),
            ...     operation=torch.tensor([OPERATIONS.index("brightness")]),
            ...     strength=torch.tensor([1.0]),
            ...     sign=torch.tensor([-1.0]),
            ... )
            >>> round(dark[0, 0, 0, 0].item(), 4)
            0.05
        """
        chosen = {name: operation == i for i, name in enumerate(OPERATIONS)}
        images = _move(images, chosen, strength * sign)
        return _recolour(images, chosen, strength, sign)

    def to_json(self) -> dict[str, Any]:
        """The name and the parameters, as part of a run's identity."""
        return {"name": "trivial_augment"}


def _move(images: Tensor, chosen: dict[str, Tensor], amount: Tensor) -> Tensor:
    """Rotate, shear or translate; pixels from outside of the image are black."""
    zero = torch.zeros_like(amount)
    angle = torch.where(chosen["rotate"], MAX_ANGLE * amount, zero)
    shear_x, shear_y = (torch.where(chosen[f"shear_{axis}"], MAX_SHEAR * amount, zero) for axis in "xy")
    shift_x, shift_y = (torch.where(chosen[f"translate_{axis}"], MAX_SHIFT * amount, zero) for axis in "xy")
    cos, sin = angle.cos(), angle.sin()
    matrix = torch.stack([cos, shear_x - sin, shift_x, shear_y + sin, cos, shift_y], 1).view(-1, 2, 3)
    grid = F.affine_grid(matrix.to(images.dtype), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", align_corners=False)


def _recolour(images: Tensor, chosen: dict[str, Tensor], strength: Tensor, sign: Tensor) -> Tensor:
    """Blend each image with black, its grey values, their mean or a blurred copy; or stretch, posterise, solarise."""
    pixels = {name: mask[:, None, None, None] for name, mask in chosen.items()}
    strength, sign = strength[:, None, None, None], sign[:, None, None, None]
    grey = _grey(images)
    base = torch.where(pixels["color"], grey, torch.zeros_like(images))
    base = torch.where(pixels["contrast"], grey.mean((2, 3), keepdim=True), base)
    base = torch.where(pixels["sharpness"], F.avg_pool2d(images, 3, stride=1, padding=1, count_include_pad=False), base)
    blends = pixels["brightness"] | pixels["color"] | pixels["contrast"] | pixels["sharpness"]
    factor = torch.where(blends, 1 + MAX_BLEND * strength * sign, torch.ones_like(strength))
    low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    images = torch.where(pixels["autocontrast"], (images - low) / (high - low).clamp(min=1e-3), images)
    levels = 2 ** (MAX_BITS - (MAX_BITS - MIN_BITS) * strength).round()
    images = torch.where(pixels["posterize"], (images * levels).floor().clamp(max=levels - 1) / (levels - 1), images)
    images = torch.where(pixels["solarize"] & (images >= 1 - strength), 1 - images, images)
    blended: Tensor = base + factor * (images - base)
    return blended.clamp(0, 1)


def _grey(images: Tensor) -> Tensor:
    if images.shape[1] != len(GREY):
        return images.mean(1, keepdim=True).expand_as(images)
    weights = images.new_tensor(GREY)[:, None, None]
    return (weights * images).sum(1, keepdim=True).expand_as(images)


@dataclass(frozen=True)
class Erase:
    """Fill a random rectangle with the image's mean colour (Zhong et al., Random Erasing, AAAI 2020).

    Args:
        probability: share of the images that are changed.
        area: range of the share of the image's area that the rectangle covers.
        ratio: range of the aspect ratio, width / height.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> image = torch.rand(1, 3, 32, 32)
        >>> changed = (Erase(probability=1.0)(image) != image).float().mean()
        >>> bool(0 < changed < 0.5)
        True
    """

    probability: float
    area: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)

    def __call__(self, images: Tensor) -> Tensor:
        images = as_float(images)
        num, _, height, width = images.shape
        draws = torch.rand(5, num, 1, 1, 1, device=images.device)
        area = height * width * (self.area[0] + draws[0] * (self.area[1] - self.area[0]))
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        aspect = (low + draws[1] * (high - low)).exp()
        tall, wide = (area / aspect).sqrt().clamp(max=height), (area * aspect).sqrt().clamp(max=width)
        top, left = draws[2] * (height - tall), draws[3] * (width - wide)
        y = torch.arange(height, device=images.device)[:, None] + 0.5
        x = torch.arange(width, device=images.device) + 0.5
        inside = (y >= top) & (y < top + tall) & (x >= left) & (x < left + wide)
        return torch.where(inside & (draws[4] < self.probability), images.mean((2, 3), keepdim=True), images)

    def to_json(self) -> dict[str, Any]:
        """The name and the parameters, as part of a run's identity."""
        return {"name": "erase", "probability": self.probability, "area": list(self.area), "ratio": list(self.ratio)}


def strengthened(transform: Transform, recipe: Recipe) -> Transform:
    """Return a transform with the augmentations that a recipe adds.

    Args:
        transform: the data set's transform.
        recipe: the recipe; `augment` and `erase` matter here.

    Example:
        >>> transform = Transform(mean=(0.5,), std=(0.25,))
        >>> strengthened(transform, Recipe(augment="trivial", erase=0.25)).augmentations
        (TrivialAugment(), Erase(probability=0.25, area=(0.02, 0.33), ratio=(0.3, 3.3)))
    """
    added: list[Augmentation] = []
    if recipe.augment == "trivial":
        added.append(TrivialAugment())
    if recipe.erase:
        added.append(Erase(recipe.erase))
    return dataclasses.replace(transform, augmentations=(*transform.augmentations, *added)) if added else transform
