"""A person's own folder of images as a data set."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from upcl.core.errors import UserError
from upcl.core.options import format_options, option, parse_options
from upcl.core.types import Samples
from upcl.data.dataset import Dataset
from upcl.data.defaults import (
    CROP_SCALE,
    DEFAULT_MEMORY,
    MAX_DECODED_SIZE,
    default_augmentations,
    default_backbone,
    default_channels,
    default_image_size,
    default_normalisation,
)
from upcl.data.io.crops import Photos
from upcl.data.io.images import decode
from upcl.data.io.scan import FolderReport, ImageFile, printable_path, scan_folder
from upcl.data.transforms import Transform

LARGEST_SIZE = 2048


@dataclass(frozen=True, kw_only=True)
class FolderOptions:
    """What can be said of a folder after its path: `folder:PATH,size=96,test=10`."""

    size: int = option(
        0,
        "height and width that images are brought to: the shorter side is scaled, the middle square cut out; above 64 "
        "they stay in their files. 0: their own if all are the same square up to 64, else 64",
    )
    test: int = option(20, "percent held out for testing where there is no test folder")
    seed: int = option(0, "what the held-out images are drawn from")
    strict: int = option(0, "1: a file that cannot be read is an error, not a note")

    def __post_init__(self) -> None:
        if not 1 <= self.test <= 99:
            raise UserError(f"folder: test={self.test} percent leaves nothing to train or to test on; say 1 to 99")
        if self.size > LARGEST_SIZE:
            raise UserError(f"folder: size={self.size} is more than {LARGEST_SIZE}")


def load_folder(text: str) -> Dataset:
    """`PATH` or `PATH,size=96,test=10`."""
    found = re.fullmatch(r"(.*?)((?:,\w+=[^,/]*)*)", text)
    assert found
    root, options = Path(found[1]).expanduser(), parse_options(FolderOptions, found[2].lstrip(","), "folder")
    if not found[1]:
        raise UserError("which folder? say --data folder:PATH")
    if not root.is_dir() and (stream := re.fullmatch(r"(.+)/(T\d+|B\d+-Inc\d+)", found[1])):
        raise UserError(f"there is no folder {root}; a stream comes before the path: folder/{stream[2]}:{stream[1]}")
    health, good = scan_folder(root)
    if options.strict and health.broken:
        path, reason = health.broken[0]
        raise UserError(f"{len(health.broken)} files cannot be read, first {root / path}: {reason}")
    train, test, notes = _split(good, health, options)
    if not train:
        raise UserError(f"{printable_path(root)}: no training image can be read, such as {health.broken[0][0]}")
    classes = sorted({file.label for file in train})
    number = {label: k for k, label in enumerate(classes)}
    size = options.size or default_image_size(good)
    channels = default_channels(good)
    paths = [file.path for file in (*train, *test)]
    photos = None
    if size > MAX_DECODED_SIZE:
        identity = hashlib.sha256("".join(file.pixels for file in (*train, *test)).encode()).hexdigest()
        photos = Photos(Photos.names(paths), size, identity, channels, scale=CROP_SCALE)
    inputs = torch.arange(len(paths)) if photos else decode(paths, size, channels, printable_path(root.name))
    every = Samples(inputs, torch.tensor([number[file.label] for file in (*train, *test)]))
    mean, std = default_normalisation(inputs[: len(train)], photos)
    return Dataset(
        name=f"folder:{printable_path(root.resolve().name)}{format_options(options)}",
        train=every[: len(train)],
        test=every[len(train) :],
        classes=tuple(classes),
        transform=Transform(mean, std, default_augmentations(size, crop=photos is None), photos),
        backbone=default_backbone(size),
        recipe="quick",
        memory=DEFAULT_MEMORY,
        tasks=min(5, len(classes)),
        notes=(*health.notes(), *notes),
    )


def _split(
    good: Sequence[ImageFile], health: FolderReport, options: FolderOptions
) -> tuple[list[ImageFile], list[ImageFile], list[str]]:
    """Training and test files: those of the two folders, or a part held out of the one."""
    train = [file for file in good if file.part == "train"]
    tested = [file for file in good if file.part == "test"]
    if not tested and not any(label.startswith("test/") for label in health.empty):
        return *hold_out(train, options.test, options.seed), []
    classes, others = {file.label for file in train}, {file.label for file in tested}
    if not classes & others:
        raise UserError(
            f"the test folder has none of the classes of the train folder: {', '.join(sorted(others)[:5]) or 'none'} "
            f"against {', '.join(sorted(classes)[:5])}"
        )
    left_out = sorted(others - classes)
    notes = [f"classes of the test folder without training images were left out: {', '.join(left_out[:5])}"]
    return train, [file for file in tested if file.label in classes], notes if left_out else []


def hold_out(files: Sequence[ImageFile], percent: int, seed: int) -> tuple[list[ImageFile], list[ImageFile]]:
    """A seeded split, the same share of each class and at least one image of it; equal images stay together."""
    draw = np.random.default_rng(seed)
    train, test = [], []
    for label in sorted({file.label for file in files}):
        members = [file for file in files if file.label == label]
        distinct = list(dict.fromkeys(file.pixels for file in members))
        if len(distinct) < 2:
            raise UserError(f"class '{label}' has one image: it cannot be trained and tested on; add images or test/")
        chosen = draw.permutation(len(distinct))[: max(1, len(distinct) * percent // 100)]
        held = {distinct[k] for k in chosen}
        test += [file for file in members if file.pixels in held]
        train += [file for file in members if file.pixels not in held]
    return train, test
