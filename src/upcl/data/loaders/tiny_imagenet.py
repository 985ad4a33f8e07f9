"""Tiny-ImageNet-200 in its original layout: no folder needs to be rearranged."""

from __future__ import annotations

from pathlib import Path

import torch

from upcl.core.errors import UserError
from upcl.core.files import read_text
from upcl.core.types import Samples
from upcl.data.dataset import Dataset
from upcl.data.defaults import IMAGENET_MEAN, IMAGENET_STD
from upcl.data.io.decoding import decode_cached
from upcl.data.io.download import find_dataset
from upcl.data.io.images import list_images
from upcl.data.transforms import Flip, RandomResizedCrop, Transform

LabelledPaths = list[tuple[Path, int]]


def load_tiny_imagenet(root: Path) -> Dataset:
    """Load Tiny-ImageNet-200; its validation images are used for testing.

    Args:
        root: the folder that holds `tiny-imagenet-200/` or `tiny-imagenet-200.zip`.

    Raises:
        UserError: the files are missing or inconsistent.

    Example:
        >>> load_tiny_imagenet(Path("data")).classes[0]  # doctest: +SKIP
        'goldfish'
    """
    folder = find_dataset("tinyimagenet", root)
    wnids = read_text(folder / "wnids.txt").split()
    lines = (folder / "words.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    words = dict(line.split("\t", 1) for line in lines if "\t" in line)
    label_of = {wnid: k for k, wnid in enumerate(wnids)}
    train = [(path, label_of[wnid]) for wnid in wnids for path in list_images(folder / "train" / wnid / "images")]
    return Dataset(
        name="tinyimagenet",
        train=_decode(train, "train"),
        test=_decode(_validation(folder / "val", label_of), "validation"),
        classes=tuple(words.get(wnid, wnid).split(",")[0] for wnid in wnids),
        transform=Transform(IMAGENET_MEAN, IMAGENET_STD, (RandomResizedCrop(64), Flip(0.5))),
        backbone="resnet18-7x7",
        recipe="own",
        memory="2000",
        tasks=10,
    )


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


def _decode(files: LabelledPaths, split: str) -> Samples:
    images = decode_cached([path for path, _ in files], 64, 3, f"Tiny-ImageNet {split}")
    return Samples(images, torch.tensor([label for _, label in files]))
