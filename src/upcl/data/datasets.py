"""Data sets by name. Each brings the backbone, recipe, memory and number of tasks that suit it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from ..core import Samples, option
from ..errors import UserError, unknown
from .augment import Flip, PadCrop, Transform


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
    tasks: int = 10

    def __post_init__(self) -> None:
        for part, samples in (("train", self.train), ("test", self.test)):
            if samples.inputs.dtype != torch.uint8 or samples.inputs.ndim != 4:
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
        return self.train.inputs.shape[1]

    def fingerprint(self) -> str:
        """sha256 over all pixels and labels: equal for equal data only."""
        digest = hashlib.sha256("\n".join(self.classes).encode())
        for samples in (self.train, self.test):
            for tensor in (samples.inputs, samples.labels):
                digest.update(str(tuple(tensor.shape)).encode())
                digest.update(np.ascontiguousarray(tensor.numpy()).data)
        return digest.hexdigest()


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
        if self.seed < 0 or self.noise < 0:
            raise UserError("synthetic: seed and noise must not be negative")

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


def synthetic(options: str) -> Dataset:
    """Make the synthetic data set from `classes=100,size=16` and the like."""
    values: dict[str, int] = {}
    known = Synthetic.__dataclass_fields__
    for part in filter(None, options.split(",")):
        key, _, value = part.partition("=")
        if key not in known:
            raise unknown("option of synthetic", key, known)
        try:
            values[key] = int(value)
        except ValueError:
            raise UserError(f"synthetic: {key} must be a whole number, not '{value}'") from None
    return Synthetic(**values).build()


@dataclass(frozen=True)
class Source:
    """A name in the list of data sets: how it is loaded and what `upcl datasets` says of it."""

    load: Callable[[str], Dataset]
    about: str


def _load_digits(options: str) -> Dataset:
    if options:
        raise UserError(f"digits takes no options, but got '{options}'")
    return digits()


DATASETS: dict[str, Source] = {
    "digits": Source(_load_digits, "1,797 real handwritten digits, 10 classes, 8x8 grey; built in (scikit-learn)"),
    "synthetic": Source(
        synthetic,
        "patterns made by seed; options, as in synthetic:classes=100,size=16: "
        + ", ".join(f"{f.name} ({f.metadata['meaning']}; {f.default})" for f in fields(Synthetic)),
    ),
}


def load_dataset(spec: str) -> Dataset:
    """Load `name` or `name:options`."""
    name, _, options = spec.partition(":")
    if name not in DATASETS:
        raise unknown("data set", name, DATASETS)
    return DATASETS[name].load(options)
