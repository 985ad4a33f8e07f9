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
    """Training and test images of C classes, with labels 0 .. C - 1, and defaults for training on them.

    Args:
        name: the name that `load_dataset` understands, with options.
        train: training images, uint8 (N x C x H x W), or positions of files if the transform decodes `photos`, or
            features (N x d) of a frozen backbone.
        test: test images, in the same form.
        classes: class names; labels are positions in this tuple.
        transform: turns images into what a network is given.
        backbone: name of the default backbone.
        recipe: name of the default recipe.
        memory: default memory budget.
        tasks: default number of equal tasks, or the number of classes of each task.
        notes: what a user should know about the data; kept in the record of a run.

    Raises:
        UserError: images and labels do not fit together, or a class has no image.

    Example:
        >>> images = Samples(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 0, 1, 1]))
        >>> transform = Transform(mean=(0.5,), std=(0.5,))
        >>> dataset = Dataset(name="own", train=images, test=images, classes=("cat", "dog"), transform=transform)
        >>> dataset.image_shape
        (1, 8, 8)
    """

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
        for split, samples in (("train", self.train), ("test", self.test)):
            self._check_images(split, samples.inputs)
            self._check_labels(split, samples)
        train, test = (tuple(samples.inputs.shape[1:]) for samples in (self.train, self.test))
        if train != test:
            raise UserError(f"{self.name}: test images ({test}) must have the shape of training images ({train})")

    def _check_images(self, split: str, inputs: Tensor) -> None:
        if inputs.is_floating_point() and inputs.ndim == 2:
            return
        if not self.transform.photos and (inputs.dtype != torch.uint8 or inputs.ndim != 4):
            raise UserError(f"{self.name}: {split} images must be uint8, N x channels x height x width")
        if len(self.transform.mean) != self.channels or len(self.transform.std) != self.channels:
            raise UserError(f"{self.name}: mean and std must have one value for each of the {self.channels} channels")

    def _check_labels(self, split: str, samples: Samples) -> None:
        if not len(samples):
            raise UserError(f"{self.name}: there are no {split} images")
        if int(samples.labels.min()) < 0 or int(samples.labels.max()) >= len(self.classes):
            raise UserError(f"{self.name}: {split} labels must be in the range 0 to {len(self.classes) - 1}")
        counts = samples.counts(len(self.classes))
        if int(counts.min()) == 0:
            raise UserError(f"{self.name}: class '{self.classes[int(counts.argmin())]}' has no {split} images")

    @property
    def channels(self) -> int:
        """Number of channels of the images."""
        return self.image_shape[0]

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Channels, height and width of what a network is given."""
        photos = self.transform.photos
        return photos.shape if photos else tuple(self.train.inputs.shape[1:])

    def fingerprint(self) -> str:
        """sha256 of class names, labels and pixels (for photos: of their identity), to detect a change of the data."""
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
