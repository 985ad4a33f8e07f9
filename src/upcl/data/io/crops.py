"""Images too large to keep decoded: worker processes cut what a batch needs straight out of the files.

`Samples.inputs` are then numbers of files. The boxes of an epoch are drawn in advance, in one place, so that a run does
not depend on how many workers there are.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from upcl.core.errors import UserError

from .images import BrokenImageError, read_image

AHEAD = 2  # batches that each worker may be ahead of the training
DRAWS = 4  # random numbers of one box


@dataclass(frozen=True, eq=False)
class Photos:
    """Files, and the squares that are cut out of them.

    For training a box of random area and aspect as in Inception; for testing the middle square of `margin` of the
    shorter side (224 of 256 pixels). Both are resized bilinearly to `size`.
    """

    paths: np.ndarray = field(repr=False)  # bytes, not strings: forked workers then share it without copying
    size: int
    identity: str = field(repr=False)  # a digest of what the files hold, or of their names and sizes
    channels: int = 3
    margin: float = 224 / 256
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    @staticmethod
    def names(paths: Sequence[Path]) -> np.ndarray:
        return np.array([os.fsencode(path) for path in paths])

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.channels, self.size, self.size

    def to_json(self) -> dict[str, Any]:
        """How squares are cut; which files they are cut from is in the data set's fingerprint."""
        return {
            "size": self.size,
            "channels": self.channels,
            "margin": self.margin,
            "scale": list(self.scale),
            "ratio": list(self.ratio),
        }

    def batches(self, numbers: Tensor, batches: Sequence[Tensor], *, augment: bool) -> Iterator[Tensor]:
        """uint8 images (B x C x size x size) of each batch of positions in `numbers`, decoded ahead."""
        draws = torch.rand(len(numbers), DRAWS).numpy() if augment else None
        flat = iter(torch.cat(list(batches)).tolist())  # the only wait for the device
        loader = DataLoader(
            _Crops(self, numbers.cpu().numpy(), draws),
            sampler=[list(islice(flat, len(index))) for index in batches],
            batch_size=None,
            num_workers=min(torch.get_num_threads(), len(batches)),
            prefetch_factor=AHEAD,
            collate_fn=_unchanged,
            generator=torch.Generator(),
        )
        for images in loader:
            if isinstance(images, str):
                raise UserError(images)
            yield torch.from_numpy(images).permute(0, 3, 1, 2)

    def cut(self, number: int, draws: np.ndarray | None) -> np.ndarray:
        """One file's square, H x W x C. A JPEG is decoded no finer than the square needs."""
        path = Path(os.fsdecode(self.paths[number]))
        area = 1.0 if draws is None else self.scale[0] + float(draws[0]) * (self.scale[1] - self.scale[0])

        def finer_than_needed(width: int, height: int) -> float:
            side = (
                min(width, height) * self.margin if draws is None else math.sqrt(area * width * height * self.ratio[0])
            )
            return min(side, width, height) / self.size

        try:
            image = read_image(path, finer_than_needed)
        except BrokenImageError as error:
            raise UserError(f"{path} cannot be read: {error}. Replace or remove it") from None
        box = self._middle(image) if draws is None else self._box(image, area, draws)
        image = image.convert("L" if self.channels == 1 else "RGB")
        pixels = np.asarray(image.resize((self.size, self.size), Image.Resampling.BILINEAR, box=box))
        return pixels.reshape(self.size, self.size, self.channels)

    def _middle(self, image: Image.Image) -> tuple[float, float, float, float]:
        side = min(image.size) * self.margin
        left, top = (image.width - side) / 2, (image.height - side) / 2
        return left, top, left + side, top + side

    def _box(self, image: Image.Image, area: float, draws: np.ndarray) -> tuple[float, float, float, float]:
        """As `RandomResizedCrop` draws it: a box that does not fit is clipped instead of drawn again."""
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        aspect = math.exp(low + float(draws[1]) * (high - low))
        pixels = area * image.width * image.height
        tall = min(max(1.0, math.sqrt(pixels / aspect)), image.height)
        wide = min(max(1.0, math.sqrt(pixels * aspect)), image.width)
        top, left = float(draws[2]) * (image.height - tall), float(draws[3]) * (image.width - wide)
        return left, top, left + wide, top + tall


class _Crops(Dataset[np.ndarray | str]):
    """What a worker does: all squares of one batch, or the reason why it could not."""

    def __init__(self, photos: Photos, numbers: np.ndarray, draws: np.ndarray | None) -> None:
        self.photos, self.numbers, self.draws = photos, numbers, draws

    def __getitem__(self, index: list[int]) -> np.ndarray | str:
        channels, height, width = self.photos.shape
        images = np.empty((len(index), height, width, channels), np.uint8)
        try:
            for image, i in zip(images, index, strict=True):
                image[:] = self.photos.cut(self.numbers[i], None if self.draws is None else self.draws[i])
        except UserError as error:
            return str(error)
        return images


def _unchanged(images: Any) -> Any:
    """Arrays travel through a pipe: torch's shared memory is 64 MB only in many containers."""
    return images
