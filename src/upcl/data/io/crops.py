"""Images that are too large to keep decoded: worker processes crop what a batch needs directly from the files.

`Samples.inputs` are then positions of files. The random numbers of an epoch are drawn in advance in the main process,
so a run does not depend on the number of workers.
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

PREFETCH_BATCHES = 2  # per worker
NUM_DRAWS = 4  # random numbers per box

Box = tuple[float, float, float, float]  # left, upper, right, lower, as in Pillow


@dataclass(frozen=True, eq=False)
class Photos:
    """Image files, and how square crops are taken from them.

    For training, the crop has a random area and aspect ratio as in Inception. For testing, it is the central square of
    `crop_fraction` of the shorter side (224 of 256 pixels). Both are resized bilinearly to `size`.

    Args:
        paths: the files, as an array of bytes: worker processes then share it without copying. See `from_files`.
        size: height and width of the crops.
        identity: a digest of the content of the files, or of their names and sizes; part of a data set's fingerprint.
        channels: 1 for grey, 3 for RGB.
        crop_fraction: share of the shorter side that a test crop covers.
        scale: range of the share of the area that a training crop covers.
        ratio: range of the aspect ratio of a training crop.

    Example:
        >>> photos = Photos.from_files([Path("robin.jpg"), Path("crow.jpg")], size=224, identity="")
        >>> photos.shape
        (3, 224, 224)
    """

    paths: np.ndarray = field(repr=False)
    size: int
    identity: str = field(repr=False)
    channels: int = 3
    crop_fraction: float = 224 / 256
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    @classmethod
    def from_files(cls, files: Sequence[Path], size: int, identity: str, **options: Any) -> Photos:
        """Create photos from a list of paths.

        Args:
            files: the image files.
            size: height and width of the crops.
            identity: a digest that identifies the files.
            options: the other parameters of `Photos`.

        Example:
            >>> Photos.from_files([Path("robin.jpg")], 32, "", channels=1)
            Photos(size=32, channels=1, crop_fraction=0.875, scale=(0.08, 1.0), ratio=(0.75, 1.3333333333333333))
        """
        return cls(np.array([os.fsencode(path) for path in files]), size, identity, **options)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of a crop."""
        return self.channels, self.size, self.size

    def to_json(self) -> dict[str, Any]:
        """How crops are taken. Which files they are taken from is part of the data set's fingerprint."""
        return {
            "size": self.size,
            "channels": self.channels,
            "margin": self.crop_fraction,
            "scale": list(self.scale),
            "ratio": list(self.ratio),
        }

    def batches(self, positions: Tensor, batches: Sequence[Tensor], *, augment: bool) -> Iterator[Tensor]:
        """Decode batches of crops in worker processes, ahead of their use.

        Args:
            positions: positions in `paths`, one per sample.
            batches: for each batch, indices into `positions`.
            augment: take random crops instead of central ones; they are drawn from torch's global generator.

        Yields:
            uint8 images (B x C x size x size), one tensor per batch.

        Raises:
            UserError: a file cannot be read.

        Example:
            >>> import tempfile
            >>> path = Path(tempfile.mkdtemp()) / "grey.png"
            >>> Image.new("RGB", (40, 30), (128, 128, 128)).save(path)
            >>> photos = Photos.from_files([path], size=8, identity="")
            >>> [batch.shape for batch in photos.batches(torch.tensor([0]), [torch.tensor([0])], augment=True)]
            [torch.Size([1, 3, 8, 8])]
        """
        draws = torch.rand(len(positions), NUM_DRAWS).numpy() if augment else None
        flat = iter(torch.cat(list(batches)).tolist())  # the only synchronisation with the device
        loader = DataLoader(
            _CropLoader(self, positions.cpu().numpy(), draws),
            sampler=[list(islice(flat, len(index))) for index in batches],
            batch_size=None,
            num_workers=min(torch.get_num_threads(), len(batches)),
            prefetch_factor=PREFETCH_BATCHES,
            collate_fn=_unchanged,
            generator=torch.Generator(),
        )
        for images in loader:
            if isinstance(images, str):
                raise UserError(images)
            yield torch.from_numpy(images).permute(0, 3, 1, 2)

    def crop(self, position: int, draws: np.ndarray | None) -> np.ndarray:
        """Crop one file. A JPEG is decoded at no higher resolution than the crop needs.

        Args:
            position: position of the file in `paths`.
            draws: four random numbers in [0, 1) for a training crop; None for the central test crop.

        Returns:
            A uint8 array (size x size x C).

        Raises:
            UserError: the file cannot be read.

        Example:
            >>> import tempfile
            >>> path = Path(tempfile.mkdtemp()) / "grey.png"
            >>> Image.new("L", (40, 30), 128).save(path)
            >>> Photos.from_files([path], size=1, identity="", channels=1).crop(0, None).tolist()
            [[[128]]]
        """
        path = Path(os.fsdecode(self.paths[position]))
        area = 1.0 if draws is None else self.scale[0] + float(draws[0]) * (self.scale[1] - self.scale[0])

        def oversampling(width: int, height: int) -> float:
            if draws is None:
                side = min(width, height) * self.crop_fraction
            else:
                side = math.sqrt(area * width * height * self.ratio[0])
            return min(side, width, height) / self.size

        try:
            image = read_image(path, oversampling)
        except BrokenImageError as error:
            raise UserError(f"cannot read {path}: {error}; replace or remove it") from None
        box = self.central_box(*image.size) if draws is None else self.random_box(*image.size, area, draws)
        mode = "L" if self.channels == 1 else "RGB"
        image = image if image.mode == mode else image.convert(mode)  # no copy
        pixels = np.asarray(image.resize((self.size, self.size), Image.Resampling.BILINEAR, box=box))
        return pixels.reshape(self.size, self.size, self.channels)

    def central_box(self, width: int, height: int) -> Box:
        """Box of the test crop.

        Args:
            width: width of the image.
            height: height of the image.

        Example:
            >>> Photos.from_files([], 224, "").central_box(512, 256)
            (144.0, 16.0, 368.0, 240.0)
        """
        side = min(width, height) * self.crop_fraction
        left, top = (width - side) / 2, (height - side) / 2
        return left, top, left + side, top + side

    def random_box(self, width: int, height: int, area: float, draws: np.ndarray) -> Box:
        """Box of a training crop, drawn as in `RandomResizedCrop`: one that does not fit is clipped to the image.

        Args:
            width: width of the image.
            height: height of the image.
            area: share of the image's area that the box covers.
            draws: random numbers in [0, 1); the last three decide the aspect ratio and the place.

        Example:
            >>> Photos.from_files([], 224, "", ratio=(1.0, 1.0)).random_box(400, 400, 0.25, np.zeros(4))
            (0.0, 0.0, 200.0, 200.0)
        """
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        aspect = math.exp(low + float(draws[1]) * (high - low))
        pixels = area * width * height
        tall = min(max(1.0, math.sqrt(pixels / aspect)), height)
        wide = min(max(1.0, math.sqrt(pixels * aspect)), width)
        top, left = float(draws[2]) * (height - tall), float(draws[3]) * (width - wide)
        return left, top, left + wide, top + tall


class _CropLoader(Dataset[np.ndarray | str]):
    """Runs in a worker: crops all images of one batch, or returns the message of the error."""

    def __init__(self, photos: Photos, positions: np.ndarray, draws: np.ndarray | None) -> None:
        self.photos, self.positions, self.draws = photos, positions, draws

    def __getitem__(self, index: list[int]) -> np.ndarray | str:
        channels, height, width = self.photos.shape
        images = np.empty((len(index), height, width, channels), np.uint8)
        try:
            for image, i in zip(images, index, strict=True):
                image[:] = self.photos.crop(self.positions[i], None if self.draws is None else self.draws[i])
        except UserError as error:
            return str(error)
        return images


def _unchanged(images: Any) -> Any:
    """Send arrays through a pipe: torch's shared memory is only 64 MB in many containers."""
    return images
