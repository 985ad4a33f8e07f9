"""Data that ships with the package or is made by seed: no download."""

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


def digits() -> Dataset:
    """Real handwritten digits, 8 x 8 grey, that ship inside scikit-learn; a fixed stratified split, 1/5 for testing."""
    from sklearn.datasets import load_digits

    source = load_digits()
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
class Synthetic:
    """The numbers behind the `synthetic` data set; `synthetic:classes=100,size=16` changes some of them."""

    classes: int = option(10, "number of classes")
    size: int = option(8, "height and width")
    channels: int = option(3, "1 grey, 3 colour")
    train: int = option(40, "training images a class")
    test: int = option(20, "test images a class")
    noise: int = option(40, "standard deviation of the pixel noise, of 255")
    seed: int = option(0, "what the images are drawn from")

    def __post_init__(self) -> None:
        for name in ("classes", "size", "train", "test"):
            if getattr(self, name) < 1:
                raise UserError(f"synthetic: {name} must be at least 1")
        if self.channels not in (1, 3):
            raise UserError("synthetic: channels must be 1 or 3")

    def build(self) -> Dataset:
        """A smooth random pattern for each class; its images are shifted, dimmed and noisy copies of it."""
        draw = np.random.default_rng(self.seed)
        coarse = torch.from_numpy(draw.random((self.classes, self.channels, 4, 4), dtype=np.float32))
        patterns = torch.nn.functional.interpolate(coarse, size=(self.size, self.size), mode="bilinear")
        name = "synthetic:" + ",".join(f"{key}={value}" for key, value in vars(self).items())
        return Dataset(
            name=name,
            train=self._draw(patterns, self.train, draw),
            test=self._draw(patterns, self.test, draw),
            classes=tuple(f"class-{k}" for k in range(self.classes)),
            transform=Transform((0.5,) * self.channels, (0.25,) * self.channels, (PadCrop(1), Flip(0.5))),
            backbone="small",
            recipe="quick",
            memory=str(2 * self.classes),
            tasks=5 if self.classes >= 5 else self.classes,
        )

    def _draw(self, patterns: Tensor, each: int, draw: np.random.Generator) -> Samples:
        labels = torch.arange(self.classes).repeat_interleave(each)
        dim = torch.from_numpy(draw.uniform(0.6, 1.0, (len(labels), 1, 1, 1)).astype(np.float32))
        shape = (len(labels), self.channels, self.size, self.size)
        noise = torch.from_numpy(draw.standard_normal(shape, dtype=np.float32)) * self.noise
        images = (255 * dim * patterns[labels] + noise).clamp(0, 255)
        return Samples(images.to(torch.uint8), labels)
