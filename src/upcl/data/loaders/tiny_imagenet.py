"""Tiny-ImageNet-200 in its original layout: no folder needs to be rearranged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from upcl.core.errors import UserError
from upcl.core.files import read_text
from upcl.core.options import option
from upcl.core.types import Samples
from upcl.data.dataset import Dataset
from upcl.data.defaults import IMAGENET_MEAN, IMAGENET_STD, default_augmentations
from upcl.data.io.decoding import decode_cached
from upcl.data.io.download import find_dataset
from upcl.data.io.images import list_images
from upcl.data.subset import SubsetOptions
from upcl.data.transforms import Flip, RandomResizedCrop, Transform

LabelledPaths = list[tuple[Path, int]]
SIZE = 64


@dataclass(frozen=True, kw_only=True)
class TinyImageNetOptions(SubsetOptions):
    """How many images to use, and their size.

    Args:
        train: number of training images per class, the first ones in the order of the files; 0 for all.
        test: number of test images per class; 0 for all.
        num_classes: number of classes, the first ones; 0 for all.
        held_out: share of the training images of each class that take the place of the test images.
        size: height and width of the images.

    Example:
        >>> TinyImageNetOptions(size=128)
        Traceback (most recent call last):
        upcl.core.errors.UserError: tinyimagenet: size must be 8 to 64, not 128
    """

    size: int = option(SIZE, "height and width of the images; smaller ones than 64 are reduced")

    def __post_init__(self) -> None:
        if not 8 <= self.size <= SIZE:
            raise UserError(f"tinyimagenet: size must be 8 to {SIZE}, not {self.size}")


def load_tiny_imagenet(root: Path, options: TinyImageNetOptions) -> Dataset:
    """Load Tiny-ImageNet-200; its validation images are used for testing.

    Args:
        root: the folder that holds `tiny-imagenet-200/` or `tiny-imagenet-200.zip`.
        options: how many images to use, and their size.

    Raises:
        UserError: the files are missing or inconsistent.

    Example:
        >>> load_tiny_imagenet(Path("data"), TinyImageNetOptions()).classes[0]  # doctest: +SKIP
        'goldfish'
    """
    folder = find_dataset("tinyimagenet", root)
    wnids = read_text(folder / "wnids.txt").split()
    lines = (folder / "words.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    words = dict(line.split("\t", 1) for line in lines if "\t" in line)
    label_of = {wnid: k for k, wnid in enumerate(wnids)}
    train = [(path, label_of[wnid]) for wnid in wnids for path in list_images(folder / "train" / wnid / "images")]
    size = options.size
    whole = size == SIZE
    dataset = Dataset(
        name="tinyimagenet" if whole else f"tinyimagenet:size={size}",
        train=_decode(train, size, "train"),
        test=_decode(_validation(folder / "val", label_of), size, "validation"),
        classes=tuple(words.get(wnid, wnid).split(",")[0] for wnid in wnids),
        transform=Transform(
            IMAGENET_MEAN,
            IMAGENET_STD,
            (RandomResizedCrop(SIZE), Flip(0.5)) if whole else default_augmentations(size),
        ),
        backbone="resnet18-7x7",
        recipe="own",
        memory="2000",
        tasks=10,
    )
    return options.of_any_data().apply(dataset)


def _validation(folder: Path, label_of: dict[str, int]) -> LabelledPaths:
    annotations = folder / "val_annotations.txt"
    found = []
    for line in read_text(annotations).splitlines():
        if not line.strip():
            continue
        file, wnid = line.split("\t")[:2] if "\t" in line else (line, "")
        if wnid not in label_of:
            raise UserError(f"{annotations}: '{wnid}' is not in wnids.txt")
        found.append((folder / "images" / file, label_of[wnid]))
    return found


def _decode(files: LabelledPaths, size: int, split: str) -> Samples:
    images = decode_cached([path for path, _ in files], size, 3, f"Tiny-ImageNet {split}")
    return Samples(images, torch.tensor([label for _, label in files]))
