"""Data sets by name, with an optional stream (`cifar100/T10`, `cifar100/B50-Inc10`) and options after a colon."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from upcl.core.errors import UserError, unknown_choice
from upcl.core.options import parse_options

from .dataset import Dataset
from .io.paths import data_root
from .loaders.builtin import SyntheticOptions, load_digits
from .loaders.cifar import CIFAR10, CIFAR100, load_cifar
from .loaders.core50 import Core50Options, load_core50
from .loaders.cub200 import load_cub200
from .loaders.eurosat import load_eurosat
from .loaders.folder import FolderOptions, load_folder
from .loaders.food101 import load_food101
from .loaders.imagenet import ImageNet100Options, load_imagenet, load_imagenet100
from .loaders.imagenet_r import load_imagenet_r
from .loaders.npz import load_npz
from .loaders.stanford_cars import load_stanford_cars
from .loaders.tiny_imagenet import TinyImageNetOptions, load_tiny_imagenet
from .subset import SubsetOptions

Loader = Callable[[str, Path], Dataset]


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """Entry of the registry: how a data set is loaded, and its description in `upcl datasets`.

    Args:
        load: makes the data set from the text after the colon and the data root.
        title: what the data set is.
        num_classes: number of classes, as text.
        num_images: number of training and test images, as text.
        image_size: size of the images, as text.
        licence: terms of use.
        location: where the files are expected.
        how_to_obtain: how to get the files.
        options: the dataclass of the options after the colon, if there are any.
        streams: streams of the literature that have a name of their own.

    Example:
        >>> DATASETS["cifar100"].num_images
        '50,000 + 10,000'
    """

    load: Loader
    title: str
    num_classes: str = "any"
    num_images: str = "any"
    image_size: str = "any"
    licence: str
    location: str
    how_to_obtain: str
    options: type[Any] | None = SubsetOptions
    streams: Mapping[str, str] = field(default_factory=dict)


def _load_digits(options: str, _: Path) -> Dataset:
    return parse_options(SubsetOptions, options, "digits").apply(load_digits())


def _load_synthetic(options: str, _: Path) -> Dataset:
    return parse_options(SyntheticOptions, options, "synthetic").build()


def _with_subsets(name: str, load: Callable[[Path], Dataset]) -> Loader:
    """The loader of a data set whose only options are those of `SubsetOptions`."""
    return lambda options, root: parse_options(SubsetOptions, options, name).apply(load(root))


def _load_tiny_imagenet(options: str, root: Path) -> Dataset:
    return load_tiny_imagenet(root, parse_options(TinyImageNetOptions, options, "tinyimagenet"))


def _load_imagenet(options: str, root: Path) -> Dataset:
    return load_imagenet(root, parse_options(SubsetOptions, options, "imagenet1000"))


def _load_imagenet100(options: str, root: Path) -> Dataset:
    return load_imagenet100(root, parse_options(ImageNet100Options, options, "imagenet100"))


def _load_core50(options: str, root: Path) -> Dataset:
    return load_core50(root, parse_options(Core50Options, options, "core50"))


def _load_folder(options: str, _: Path) -> Dataset:
    return load_folder(options)


def _load_npz(options: str, _: Path) -> Dataset:
    return load_npz(options)


_REQUEST_IMAGENET = "request it at image-net.org; unpack to train/WNID/* and val/*"
_RESEARCH = "research use"
DATASETS: dict[str, DatasetEntry] = {
    "digits": DatasetEntry(
        load=_load_digits,
        title="handwritten digits",
        num_classes="10",
        num_images="1,442 + 355",
        image_size="8x8 grey",
        licence="BSD",
        location="built in",
        how_to_obtain="part of scikit-learn",
    ),
    "synthetic": DatasetEntry(
        load=_load_synthetic,
        title="random patterns",
        licence="none",
        location="built in",
        how_to_obtain="generated from a seed",
        options=SyntheticOptions,
    ),
    "cifar10": DatasetEntry(
        load=_with_subsets("cifar10", partial(load_cifar, CIFAR10)),
        title="CIFAR-10",
        num_classes="10",
        num_images="50,000 + 10,000",
        image_size="32x32",
        licence=_RESEARCH,
        location="ROOT/cifar-10-batches-py/ or its .tar.gz",
        how_to_obtain="upcl data get cifar10",
    ),
    "cifar100": DatasetEntry(
        load=_with_subsets("cifar100", partial(load_cifar, CIFAR100)),
        title="CIFAR-100",
        num_classes="100",
        num_images="50,000 + 10,000",
        image_size="32x32",
        licence=_RESEARCH,
        location="ROOT/cifar-100-python/ or its .tar.gz",
        how_to_obtain="upcl data get cifar100",
    ),
    "tinyimagenet": DatasetEntry(
        load=_load_tiny_imagenet,
        title="Tiny-ImageNet-200",
        num_classes="200",
        num_images="100,000 + 10,000",
        image_size="64x64",
        licence=_RESEARCH,
        location="ROOT/tiny-imagenet-200/ or its .zip",
        how_to_obtain="upcl data get tinyimagenet",
        options=TinyImageNetOptions,
    ),
    "imagenet100": DatasetEntry(
        load=_load_imagenet100,
        title="100 classes of ImageNet",
        num_classes="100",
        num_images="about 129,000 + 5,000",
        image_size="crops of 224x224",
        licence=_RESEARCH,
        location="ROOT/imagenet100/, else ROOT/imagenet/",
        how_to_obtain=_REQUEST_IMAGENET,
        options=ImageNet100Options,
    ),
    "imagenet1000": DatasetEntry(
        load=_load_imagenet,
        title="ImageNet (ILSVRC2012)",
        num_classes="1,000",
        num_images="1,281,167 + 50,000",
        image_size="crops of 224x224",
        licence=_RESEARCH,
        location="ROOT/imagenet/",
        how_to_obtain=_REQUEST_IMAGENET,
    ),
    "imagenetr": DatasetEntry(
        load=_with_subsets("imagenetr", load_imagenet_r),
        title="ImageNet-R: renditions",
        num_classes="200",
        num_images="about 24,000 + 6,000",
        image_size="crops of 224x224",
        licence=_RESEARCH,
        location="ROOT/imagenet-r/ or its .tar",
        how_to_obtain="upcl data get imagenetr",
    ),
    "cub200": DatasetEntry(
        load=_with_subsets("cub200", load_cub200),
        title="CUB-200-2011: birds",
        num_classes="200",
        num_images="5,994 + 5,794",
        image_size="crops of 224x224",
        licence=_RESEARCH,
        location="ROOT/CUB_200_2011/ or its .tgz",
        how_to_obtain="upcl data get cub200",
    ),
    "stanfordcars": DatasetEntry(
        load=_with_subsets("stanfordcars", load_stanford_cars),
        title="Stanford Cars",
        num_classes="196",
        num_images="8,144 + 8,041",
        image_size="crops of 224x224",
        licence=_RESEARCH,
        location="ROOT/stanford_cars/",
        how_to_obtain="from a copy: its cars_train/, cars_test/, devkit/ and test labels",
    ),
    "food101": DatasetEntry(
        load=_with_subsets("food101", load_food101),
        title="Food-101: dishes",
        num_classes="101",
        num_images="75,750 + 25,250",
        image_size="crops of 224x224",
        licence=_RESEARCH,
        location="ROOT/food-101/ or its .tar.gz",
        how_to_obtain="upcl data get food101",
    ),
    "eurosat": DatasetEntry(
        load=_with_subsets("eurosat", load_eurosat),
        title="EuroSAT: land use, RGB",
        num_classes="10",
        num_images="21,600 + 5,400",
        image_size="64x64",
        licence="MIT",
        location="ROOT/EuroSAT_RGB/ or 2750/ or EuroSAT.zip",
        how_to_obtain="upcl data get eurosat",
    ),
    "core50": DatasetEntry(
        load=_load_core50,
        title="CORe50: objects in videos",
        num_classes="50 or 10",
        num_images="119,894 + 44,972",
        image_size="crops of 128x128",
        licence=_RESEARCH,
        location="ROOT/core50_128x128/ or its .zip",
        how_to_obtain="upcl data get core50",
        options=Core50Options,
        streams={"NC": "B10-Inc5"},
    ),
    "folder": DatasetEntry(
        load=_load_folder,
        title="your images",
        licence="yours",
        location="folder:PATH",
        how_to_obtain="PATH/CLASS/*, or PATH/train/CLASS/* and PATH/test/CLASS/*",
        options=FolderOptions,
    ),
    "npz": DatasetEntry(
        load=_load_npz,
        title="your arrays",
        licence="yours",
        location="npz:FILE",
        how_to_obtain="numpy.savez with train_x, train_y, test_x, test_y and optionally classes",
        options=None,
    ),
}


_NUMBER = r"(\d{1,9})"


def parse_stream(text: str, num_classes: int) -> int | tuple[int, ...]:
    """Parse how classes are divided into tasks.

    Args:
        text: `T10` for ten equal tasks; `B50-Inc10` for a first task of 50 classes, followed by tasks of 10 classes
            (the last one takes the remainder). `B0-Inc10` has tasks of 10 classes from the beginning.
        num_classes: the number of classes of the data set.

    Returns:
        The number of equal tasks, or the size of each task.

    Raises:
        UserError: the text is not a stream, or does not fit the number of classes.

    Example:
        >>> parse_stream("T10", 100), parse_stream("B50-Inc20", 100)
        (10, (50, 20, 20, 10))
    """
    if equal := re.fullmatch(rf"T{_NUMBER}", text):
        return int(equal[1])
    if base := re.fullmatch(rf"B{_NUMBER}-Inc{_NUMBER}", text):
        first, increment = int(base[1]), int(base[2])
        first = first or increment
        if increment < 1 or first > num_classes:
            raise UserError(
                f"stream '{text}': the first task must fit into {num_classes} classes, the increment be at least 1"
            )
        left = num_classes - first
        return (first, *[increment] * (left // increment), *([left % increment] if left % increment else []))
    raise UserError(f"unknown stream '{text}': use T10 (ten equal tasks) or B50-Inc10 (50 classes, then 10 at a time)")


def load_dataset(spec: str, root: str | Path | None = None) -> Dataset:
    """Load a data set by name.

    Args:
        spec: `NAME`, `NAME/STREAM`, `NAME:OPTIONS` or `NAME/STREAM:OPTIONS`, such as `cifar100/B50-Inc10:train=100`.
            `upcl datasets` lists names and options, `parse_stream` explains streams.
        root: the folder that holds the data sets; `data_root` explains the default.

    Raises:
        UserError: the name, the stream or an option is unknown, or files are missing.

    Example:
        >>> dataset = load_dataset("digits/B4-Inc3:train=20")
        >>> dataset.tasks, len(dataset.train)
        ((4, 3, 3), 200)
    """
    name, _, options = spec.partition(":")
    name, slash, stream = name.partition("/")
    if name not in DATASETS:
        raise unknown_choice("data set", name, DATASETS)
    dataset = DATASETS[name].load(options, data_root(root))
    if not slash:
        return dataset
    stream = DATASETS[name].streams.get(stream, stream)
    return dataclasses.replace(dataset, tasks=parse_stream(stream, len(dataset.classes)))
