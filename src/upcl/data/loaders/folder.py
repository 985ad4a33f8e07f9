"""Your own folder of images as a data set."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from upcl.core.errors import UserError
from upcl.core.options import format_options, option, parse_options
from upcl.core.splits import hold_out
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
from upcl.data.io.decoding import decode_cached
from upcl.data.io.listing import ImageFile, counted
from upcl.data.io.paths import expand_home, printable_path
from upcl.data.io.scan import FolderReport, scan_folder
from upcl.data.transforms import Transform

MAX_SIZE = 2048


@dataclass(frozen=True, kw_only=True)
class FolderOptions:
    """Options after the path of a folder: `folder:PATH,size=96,test=10`.

    Args:
        size: height and width of the images; 0 for the default (see `default_image_size`).
        test: percentage of each class to hold out for testing if there is no test folder.
        seed: seed of the choice of the held-out images.
        strict: 1 to treat an unreadable file as an error, 0 to skip it with a note.

    Example:
        >>> FolderOptions(test=100)
        Traceback (most recent call last):
        upcl.core.errors.UserError: folder: test=100 leaves no images to train on or to test on; choose 1 to 99 percent
    """

    size: int = option(
        0,
        "height and width of the images: the shorter side is scaled, the central square is cropped; images larger than "
        "64 are decoded for each batch. 0: their own size if all are the same square of at most 64 pixels, else 64",
    )
    test: int = option(20, "percentage of each class to hold out for testing if there is no test folder")
    seed: int = option(0, "seed of the choice of the held-out images")
    strict: int = option(0, "1: treat an unreadable file as an error; 0: skip it with a note")

    def __post_init__(self) -> None:
        if not 1 <= self.test <= 99:
            raise UserError(
                f"folder: test={self.test} leaves no images to train on or to test on; choose 1 to 99 percent"
            )
        if self.size > MAX_SIZE:
            raise UserError(f"folder: size={self.size} exceeds the maximum of {MAX_SIZE}")


def load_folder(text: str) -> Dataset:
    """Load a folder in the layout `CLASS/*`, or `train/CLASS/*` and `test/CLASS/*`.

    Args:
        text: the path, optionally with `FolderOptions`: `photos,size=96,test=10`.

    Raises:
        UserError: the folder does not exist, or its images cannot be used for training and testing.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from upcl.data.io.images import encode_png
        >>> root = Path(tempfile.mkdtemp())
        >>> for k, name in enumerate(("crow/1.png", "crow/2.png", "robin/1.png", "robin/2.png")):
        ...     (root / name).parent.mkdir(exist_ok=True)
        ...     _ = (root / name).write_bytes(encode_png(np.full((3, 40, 60), k, np.uint8)))
        >>> dataset = load_folder(f"{root},size=16,test=50")
        >>> dataset.classes, dataset.image_shape, len(dataset.train), len(dataset.test)
        (('crow', 'robin'), (3, 16, 16), 2, 2)
    """
    root, options = _parse(text)
    report, files = scan_folder(root)
    if options.strict and report.broken:
        path, reason = report.broken[0]
        raise UserError(f"cannot read {counted(len(report.broken), 'file')}, such as {root / path}: {reason}")
    if not any(file.split == "train" for file in files):
        hint = f": cannot read {', '.join(path for path, _ in report.broken[:3])}" if report.broken else ""
        raise UserError(f"{printable_path(root)} has no training images{hint}")
    train, test, notes = _split(files, report, options)
    classes = sorted({file.label for file in train})
    label_of = {name: label for label, name in enumerate(classes)}
    size, channels = options.size or default_image_size(files), default_channels(files)
    used = [*train, *test]
    inputs, photos = _load_images(used, size, channels, printable_path(root.name))
    samples = Samples(inputs, torch.tensor([label_of[file.label] for file in used]))
    mean, std = default_normalisation(inputs[: len(train)], photos)
    return Dataset(
        name=f"folder:{printable_path(root.resolve().name)}{format_options(options)}",
        train=samples[: len(train)],
        test=samples[len(train) :],
        classes=tuple(classes),
        transform=Transform(mean, std, default_augmentations(size, crop=photos is None), photos),
        backbone=default_backbone(size),
        recipe="quick",
        memory=DEFAULT_MEMORY,
        tasks=min(5, len(classes)),
        notes=(*report.notes(), *notes),
    )


def hold_out_files(files: Sequence[ImageFile], percent: int, seed: int) -> tuple[list[ImageFile], list[ImageFile]]:
    """Split files into training and held-out files, with the same share of each class and at least one image of it.

    Copies of an image stay on the same side of the split.

    Args:
        files: readable files.
        percent: the percentage of each class to hold out.
        seed: the seed of the choice.

    Returns:
        The training files and the held-out files, each sorted by class.

    Raises:
        UserError: a class has a single image, apart from copies of it.

    Example:
        >>> files = [ImageFile(Path(f"{k}.png"), "robin", "train", digest=str(k)) for k in range(10)]
        >>> train, held_out = hold_out_files(files, percent=20, seed=0)
        >>> len(train), len(held_out)
        (8, 2)
    """
    files = sorted(files, key=lambda file: file.label)
    distinct: dict[str, set[str]] = {}
    for file in files:
        distinct.setdefault(file.label, set()).add(file.digest)
    if single := [label for label, digests in distinct.items() if len(digests) < 2]:
        raise UserError(
            f"class '{single[0]}' has a single image, but training and testing need at least one each: add images to "
            "it, or a test folder"
        )
    labels, digests = [file.label for file in files], [file.digest for file in files]
    mask = hold_out(labels, percent / 100, seed, groups=digests, min_per_class=1)
    pairs = list(zip(files, mask, strict=True))
    return [file for file, held_out in pairs if not held_out], [file for file, held_out in pairs if held_out]


def _parse(text: str) -> tuple[Path, FolderOptions]:
    found = re.fullmatch(r"(.*?)((?:,\w+=[^,/]*)*)", text, re.DOTALL)
    assert found, "the pattern matches any text"
    path, options = found[1], parse_options(FolderOptions, found[2].lstrip(","), "folder")
    if not path:
        raise UserError("the path of the folder is missing: use folder:PATH")
    root = expand_home(path)
    if not root.is_dir() and (stream := re.fullmatch(r"(.+)/(T\d+|B\d+-Inc\d+)", path)):
        raise UserError(f"there is no folder {root}; put the stream before the path: folder/{stream[2]}:{stream[1]}")
    return root, options


def _split(
    files: Sequence[ImageFile], report: FolderReport, options: FolderOptions
) -> tuple[list[ImageFile], list[ImageFile], list[str]]:
    """Training and test files from their two folders, or with a part held out of the only one; and notes."""
    train = [file for file in files if file.split == "train"]
    test = [file for file in files if file.split == "test"]
    if not test and not any(label.startswith("test/") for label in report.empty):
        return *hold_out_files(train, options.test, options.seed), []
    train_classes, test_classes = {file.label for file in train}, {file.label for file in test}
    if not train_classes & test_classes:
        raise UserError(
            "the train and test folders have no class in common: "
            f"{', '.join(sorted(train_classes)[:5])} for training, "
            f"{', '.join(sorted(test_classes)[:5]) or 'none'} for testing"
        )
    ignored = sorted(test_classes - train_classes)
    notes = [f"classes of the test folder skipped: no training images: {', '.join(ignored[:5])}"]
    return train, [file for file in test if file.label in train_classes], notes if ignored else []


def _load_images(
    files: Sequence[ImageFile], size: int, channels: int, description: str
) -> tuple[torch.Tensor, Photos | None]:
    """Decoded images; or, if they are large, the positions of their files and what decodes them."""
    paths = [file.path for file in files]
    if size <= MAX_DECODED_SIZE:
        return decode_cached(paths, size, channels, description), None
    identity = hashlib.sha256("".join(file.digest for file in files).encode()).hexdigest()
    photos = Photos.from_files(paths, size, identity, channels=channels, scale=CROP_SCALE)
    return torch.arange(len(paths)), photos
