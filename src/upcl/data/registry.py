"""Data sets by name, with an optional stream (`cifar100/T10`, `cifar100/B50-Inc10`) and options after a colon."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upcl.core.errors import UserError, unknown_choice
from upcl.core.options import parse_options
from upcl.data.io.paths import data_root
from upcl.data.loaders.builtin import Synthetic, digits
from upcl.data.loaders.cifar import CIFAR10, CIFAR100, load_cifar
from upcl.data.loaders.folder import FolderOptions, load_folder
from upcl.data.loaders.imagenet import Subset, load_imagenet, load_imagenet100
from upcl.data.loaders.npz import load_npz
from upcl.data.loaders.tiny_imagenet import load_tiny

from .dataset import Dataset
from .subset import Slice

Load = Callable[[str, Path], Dataset]


"""Makes a data set from its options and the data root."""


@dataclass(frozen=True)
class Source:
    """A name in the list of data sets: how it is loaded and what `upcl datasets` says of it."""

    load: Load
    about: str
    classes: str
    images: str
    size: str
    licence: str
    where: str
    how: str
    options: type[Any] | None = Slice


def _digits(options: str, _: Path) -> Dataset:
    return parse_options(Slice, options, "digits").of(digits())


def _synthetic(options: str, _: Path) -> Dataset:
    return parse_options(Synthetic, options, "synthetic").build()


def _cifar100(options: str, root: Path) -> Dataset:
    return parse_options(Slice, options, "cifar100").of(load_cifar(CIFAR100, "cifar100", root))


def _cifar10(options: str, root: Path) -> Dataset:
    return parse_options(Slice, options, "cifar10").of(load_cifar(CIFAR10, "cifar10", root))


def _tiny(options: str, root: Path) -> Dataset:
    return parse_options(Slice, options, "tinyimagenet").of(load_tiny(root))


def _imagenet(options: str, root: Path) -> Dataset:
    return load_imagenet(root, parse_options(Slice, options, "imagenet1000"))


def _imagenet100(options: str, root: Path) -> Dataset:
    return load_imagenet100(root, parse_options(Subset, options, "imagenet100"))


def _folder(options: str, _: Path) -> Dataset:
    return load_folder(options)


def _npz(options: str, _: Path) -> Dataset:
    return load_npz(options)


ASK = "image-net.org, on request; unpack to train/WNID/* and val/*"
RESEARCH = "research use"
DATASETS: dict[str, Source] = {
    "digits": Source(
        _digits, "handwritten digits", "10", "1,442 + 355", "8x8 grey", "BSD", "built in", "comes with scikit-learn"
    ),
    "synthetic": Source(
        _synthetic, "patterns made by seed", "any", "any", "any", "none", "nowhere", "made on the spot", Synthetic
    ),
    "cifar10": Source(
        _cifar10,
        "CIFAR-10",
        "10",
        "50,000 + 10,000",
        "32x32",
        RESEARCH,
        "ROOT/cifar-10-batches-py/ or its .tar.gz",
        "upcl data get cifar10",
    ),
    "cifar100": Source(
        _cifar100,
        "CIFAR-100",
        "100",
        "50,000 + 10,000",
        "32x32",
        RESEARCH,
        "ROOT/cifar-100-python/ or its .tar.gz",
        "upcl data get cifar100",
    ),
    "tinyimagenet": Source(
        _tiny,
        "Tiny-ImageNet-200",
        "200",
        "100,000 + 10,000",
        "64x64",
        RESEARCH,
        "ROOT/tiny-imagenet-200/ or its .zip",
        "upcl data get tinyimagenet",
    ),
    "imagenet100": Source(
        _imagenet100,
        "100 classes of ImageNet",
        "100",
        "about 129,000 + 5,000",
        "crops of 224x224",
        RESEARCH,
        "ROOT/imagenet100/, else ROOT/imagenet/",
        ASK,
        Subset,
    ),
    "imagenet1000": Source(
        _imagenet,
        "ImageNet (ILSVRC2012)",
        "1,000",
        "1,281,167 + 50,000",
        "crops of 224x224",
        RESEARCH,
        "ROOT/imagenet/",
        ASK,
    ),
    "folder": Source(
        _folder,
        "your images",
        "any",
        "any",
        "any",
        "yours",
        "folder:PATH",
        "PATH/CLASS/*, or PATH/train/CLASS/* and PATH/test/CLASS/*",
        FolderOptions,
    ),
    "npz": Source(
        _npz,
        "your arrays",
        "any",
        "any",
        "any",
        "yours",
        "npz:FILE",
        "numpy.savez with train_x, train_y, test_x, test_y and perhaps classes",
        None,
    ),
}


def parse_stream(text: str, num_classes: int) -> int | tuple[int, ...]:
    """`T10`: ten equal tasks. `B50-Inc10`: fifty classes first, then ten at a time, the last task takes the rest."""
    if equal := re.fullmatch(r"T(\d+)", text):
        return int(equal[1])
    if base := re.fullmatch(r"B(\d+)-Inc(\d+)", text):
        first, step = int(base[1]), int(base[2])
        first = first or step
        if step < 1 or first > num_classes:
            raise UserError(
                f"stream '{text}': the first task must fit in {num_classes} classes, the step be at least 1"
            )
        left = num_classes - first
        return (first, *[step] * (left // step), *([left % step] if left % step else []))
    raise UserError(f"stream '{text}': say T10 (ten equal tasks) or B50-Inc10 (fifty classes, then ten at a time)")


def load_dataset(spec: str, root: str | Path | None = None) -> Dataset:
    """Load `name`, `name/stream` or `name/stream:options`; files are looked for in `root` (see `data_root`)."""
    name, _, options = spec.partition(":")
    name, slash, stream = name.partition("/")
    if name not in DATASETS:
        raise unknown_choice("data set", name, DATASETS)
    dataset = DATASETS[name].load(options, data_root(root))
    if not slash:
        return dataset
    return dataclasses.replace(dataset, tasks=parse_stream(stream, len(dataset.classes)))
