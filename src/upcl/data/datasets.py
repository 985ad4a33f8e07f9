"""What a data set is: images with labels, and the backbone, recipe, memory and tasks that suit it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch

from ..core import Samples
from ..errors import UserError
from .augment import Transform


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
            counts = samples.counts(len(self.classes))
            if len(counts) > len(self.classes) or int(samples.labels.min()) < 0:
                raise UserError(f"{self.name}: a {part} label lies outside of the {len(self.classes)} classes")
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
        """sha256 over all pixels (of photos: names and sizes of the files) and labels: equal for equal data only."""
        digest = hashlib.sha256("\n".join(self.classes).encode())
        if self.transform.photos:
            digest.update(self.transform.photos.digest().encode())
        for samples in (self.train, self.test):
            for tensor in (samples.inputs, samples.labels):
                digest.update(str(tuple(tensor.shape)).encode())
                digest.update(np.ascontiguousarray(tensor.numpy()).data)
        return digest.hexdigest()
