"""Data sets by name, with an optional stream (`cifar100/T10`, `cifar100/B50-Inc10`) and options after a colon."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..errors import UserError, unknown
from .builtin import Synthetic, digits
from .cifar import CIFAR10, CIFAR100, load_cifar
from .datasets import Dataset
from .folders import FolderOptions, load_folder, load_npz
from .imagenet import Subset, load_imagenet, load_imagenet100
from .options import Slice, parse_options
from .places import data_root
from .tiny import load_tiny

Load = Callable[[str, Path], Dataset]
"""Makes a data set from its options and the data root."""


@dataclass(frozen=True)
class Source:
    """A name in the list of data sets: how it is loaded and what `upcl datasets` says of it."""

    load: Load
    about: str
    size: str
    licence: str
    where: str
    how: str


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


def _told(cls: type[Any]) -> str:
    return ", ".join(f"{f.name} ({f.metadata['meaning']}; {f.default})" for f in fields(cls))


DATASETS: dict[str, Source] = {
    "digits": Source(
        _digits, "handwritten digits, 10 classes, 1,797 images", "8x8 grey", "BSD", "built in", "is there"
    ),
    "synthetic": Source(
        _synthetic,
        f"patterns made by seed; options: {_told(Synthetic)}",
        "any",
        "none",
        "made on the spot",
        "is there",
    ),
    "cifar10": Source(
        _cifar10,
        "10 classes, 50,000 + 10,000 images",
        "32x32 colour",
        "research use",
        "ROOT/cifar-10-batches-py",
        "upcl data get cifar10",
    ),
    "cifar100": Source(
        _cifar100,
        "100 classes, 50,000 + 10,000 images",
        "32x32 colour",
        "research use",
        "ROOT/cifar-100-python",
        "upcl data get cifar100",
    ),
    "tinyimagenet": Source(
        _tiny,
        "200 classes, 100,000 + 10,000 images",
        "64x64 colour",
        "research use",
        "ROOT/tiny-imagenet-200",
        "upcl data get tinyimagenet",
    ),
    "imagenet100": Source(
        _imagenet100,
        f"100 classes, about 129,000 + 5,000 images; options: {_told(Subset)}",
        "224x224 colour crops",
        "research use",
        "ROOT/imagenet100, else ROOT/imagenet",
        "ask image-net.org; unpack to train/WNID/ and val/",
    ),
    "imagenet1000": Source(
        _imagenet,
        "1,000 classes, 1,281,167 + 50,000 images",
        "224x224 colour crops",
        "research use",
        "ROOT/imagenet",
        "ask image-net.org; unpack to train/WNID/ and val/",
    ),
    "folder": Source(
        _folder,
        "your own images: folder:PATH with CLASS/*, or train/CLASS/* and test/CLASS/*; options: "
        + _told(FolderOptions),
        "any",
        "yours",
        "PATH",
        "upcl data check PATH",
    ),
    "npz": Source(
        _npz,
        "npz:FILE with train_x, train_y, test_x, test_y and perhaps classes",
        "any",
        "yours",
        "FILE",
        "np.savez",
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
        raise unknown("data set", name, DATASETS)
    dataset = DATASETS[name].load(options, data_root(root))
    if not slash:
        return dataset
    return dataclasses.replace(dataset, tasks=parse_stream(stream, len(dataset.classes)))
