"""Data sets that need no download: handwritten digits from scikit-learn, and synthetic patterns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.options import option
from upcl.core.types import Samples
from upcl.data.dataset import Dataset
from upcl.data.transforms import Flip, PadCrop, Transform

MAX_VALUES = 5 * 10**8  # takes some 8 GB while it is drawn


def load_digits() -> Dataset:
    """Load the handwritten digits that are part of scikit-learn (8 x 8, grey).

    A fixed stratified fifth of the images is used for testing.

    Example:
        >>> digits = load_digits()
        >>> len(digits.train), len(digits.test), digits.image_shape
        (1442, 355, (1, 8, 8))
    """
    from sklearn import datasets

    source = datasets.load_digits()
    images = torch.from_numpy(np.rint(source.images * (255 / 16)).astype(np.uint8))[:, None]
    labels = torch.from_numpy(source.target.astype(np.int64))
    order = np.random.RandomState(0).permutation(len(labels))
    in_test = torch.zeros(len(labels), dtype=torch.bool)
    for label in range(10):
        members = order[labels.numpy()[order] == label]
        in_test[torch.from_numpy(members[: len(members) // 5])] = True
    return Dataset(
        name="digits",
        train=Samples(images[~in_test], labels[~in_test]),
        test=Samples(images[in_test], labels[in_test]),
        classes=tuple("0123456789"),
        transform=Transform((0.305,), (0.376,), (PadCrop(1),)),
        backbone="small",
        recipe="quick",
        memory="20",
        tasks=5,
    )


@dataclass(frozen=True, kw_only=True)
class SyntheticOptions:
    """Options of the `synthetic` data set, such as `synthetic:classes=100,size=16`.

    Args:
        classes: number of classes.
        size: height and width of the images.
        channels: 1 for grey, 3 for colour.
        train: number of training images per class.
        test: number of test images per class.
        noise: standard deviation of the pixel noise, from 0 to 255.
        seed: seed of the patterns and the images.

    Example:
        >>> SyntheticOptions(classes=2, train=3).build().train.inputs.shape
        torch.Size([6, 3, 8, 8])
    """

    classes: int = option(10, "number of classes")
    size: int = option(8, "height and width of the images")
    channels: int = option(3, "1: grey, 3: colour")
    train: int = option(40, "number of training images per class")
    test: int = option(20, "number of test images per class")
    noise: int = option(40, "standard deviation of the pixel noise, from 0 to 255")
    seed: int = option(0, "seed of the patterns and the images")

    def __post_init__(self) -> None:
        for name in ("classes", "size", "train", "test"):
            if getattr(self, name) < 1:
                raise UserError(f"synthetic: {name} must be at least 1")
        if self.channels not in (1, 3):
            raise UserError("synthetic: channels must be 1 or 3")
        if not 0 <= self.noise <= 255:
            raise UserError("synthetic: noise must be from 0 to 255")
        if self.classes * (self.train + self.test) * self.channels * self.size**2 > MAX_VALUES:
            raise UserError(f"synthetic: more than {MAX_VALUES:,} pixel values: reduce classes, train, test or size")

    def build(self) -> Dataset:
        """Generate a smooth random pattern per class; its images are dimmed and noisy copies of it.

        Example:
            >>> SyntheticOptions(classes=2, size=16).build().image_shape
            (3, 16, 16)
        """
        rng = np.random.default_rng(self.seed)
        coarse = torch.from_numpy(rng.random((self.classes, self.channels, 4, 4), dtype=np.float32))
        patterns = torch.nn.functional.interpolate(coarse, size=(self.size, self.size), mode="bilinear")
        name = "synthetic:" + ",".join(f"{key}={value}" for key, value in vars(self).items())
        return Dataset(
            name=name,
            train=self._draw(patterns, self.train, rng),
            test=self._draw(patterns, self.test, rng),
            classes=tuple(f"class-{k}" for k in range(self.classes)),
            transform=Transform((0.5,) * self.channels, (0.25,) * self.channels, (PadCrop(1), Flip(0.5))),
            backbone="small",
            recipe="quick",
            memory=str(2 * self.classes),
            tasks=5 if self.classes >= 5 else self.classes,
        )

    def _draw(self, patterns: Tensor, num: int, rng: np.random.Generator) -> Samples:
        labels = torch.arange(self.classes).repeat_interleave(num)
        dim = torch.from_numpy(rng.uniform(0.6, 1.0, (len(labels), 1, 1, 1)).astype(np.float32))
        shape = (len(labels), self.channels, self.size, self.size)
        noise = torch.from_numpy(rng.standard_normal(shape, dtype=np.float32)) * self.noise
        images = (255 * dim * patterns[labels] + noise).clamp(0, 255)
        return Samples(images.to(torch.uint8), labels)
