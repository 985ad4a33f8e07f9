"""What a data set is: images with labels, and the backbone, recipe, memory and tasks that suit it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.types import Samples

from .transforms import Transform


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Training and test images with labels 0 .. C - 1 in the data set's own class order."""

    name: str
    train: Samples
    test: Samples
    classes: tuple[str, ...]
    transform: Transform
    backbone: str = "resnet18"
    recipe: str = "own"
    memory: str = "2000"
    tasks: int | tuple[int, ...] = 10
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for part, samples in (("train", self.train), ("test", self.test)):
            if not self.transform.photos and (samples.inputs.dtype != torch.uint8 or samples.inputs.ndim != 4):
                raise UserError(f"{self.name}: {part} images must be uint8, N x channels x height x width")
            if len(self.transform.mean) != self.channels or len(self.transform.std) != self.channels:
                raise UserError(f"{self.name}: mean and std must have a number for each of {self.channels} channels")
            if not len(samples):
                raise UserError(f"{self.name}: there are no {part} images")
            if int(samples.labels.min()) < 0 or int(samples.labels.max()) >= len(self.classes):
                raise UserError(f"{self.name}: a {part} label lies outside of the {len(self.classes)} classes")
            counts = samples.counts(len(self.classes))
            if int(counts.min()) == 0:
                empty = self.classes[int(counts.argmin())]
                raise UserError(f"{self.name}: class '{empty}' has no {part} image")

    @property
    def channels(self) -> int:
        return self.image_shape[0]

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Channels, height and width of what a network is given."""
        photos = self.transform.photos
        return photos.shape if photos else tuple(self.train.inputs.shape[1:])

    def fingerprint(self) -> str:
        """sha256 over labels and pixels (of photos: what identifies the files), so that other data is noticed."""
        digest = hashlib.sha256("\n".join(self.classes).encode(errors="surrogateescape"))
        if self.transform.photos:
            digest.update(self.transform.photos.identity.encode())
        for samples in (self.train, self.test):
            for tensor in (samples.inputs, samples.labels):
                digest.update(str(tuple(tensor.shape)).encode())
                digest.update(np.ascontiguousarray(tensor.numpy()).data)
        return digest.hexdigest()


def channel_statistics(batches: Iterable[Tensor]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel, rounded to four decimals so that they read well in a record.

    Args:
        batches: uint8 images (N x C x H x W), in one pass.

    Returns:
        The means and the standard deviations, of pixel values in [0, 1].

    Example:
        >>> channel_statistics([torch.tensor([0, 255], dtype=torch.uint8).reshape(2, 1, 1, 1)])
        ((0.5,), (0.5,))
    """
    pixels, total, squares = 0, torch.zeros(()), torch.zeros(())
    for images in batches:
        values = images.transpose(0, 1).flatten(1).double() / 255
        pixels, total, squares = pixels + values.shape[1], total + values.sum(1), squares + values.square().sum(1)
    mean = total / pixels
    std = (squares / pixels - mean**2).clamp(min=0).sqrt().clamp(min=1e-3)
    return tuple(round(v, 4) for v in mean.tolist()), tuple(round(v, 4) for v in std.tolist())
