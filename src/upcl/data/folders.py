"""A person's own folder of images, or an npz file, as a data set; and the health of a folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress
from torch import Tensor

from ..core import Samples, option
from ..errors import UserError
from ..files import write_json
from .augment import Flip, PadCrop, RandomResizedCrop, Transform
from .datasets import Dataset
from .options import parse_options
from .photos import Photos
from .pixels import SUFFIXES, BrokenImageError, decode, digest_of, read_image
from .places import decoded_root

TEST_NAMES = ("test", "val", "valid", "validation")
CACHED_SIZE = 64  # larger images are decoded anew for each batch
SCALE = (0.3, 1.0)  # of an image's area, that a training crop covers
MEASURED = 2000  # training images, evenly spaced, of which mean and deviation are taken


@dataclass(frozen=True)
class ImageFile:
    """One file: the class it lies in, and what reading it told."""

    path: Path
    label: str
    part: str
    width: int = 0
    height: int = 0
    grey: bool = False
    pixels: str = ""
    broken: str = ""


@dataclass(frozen=True)
class Health:
    """What is in a folder, good and bad. `same` are groups of files with equal pixels."""

    classes: dict[str, dict[str, int]]
    sizes: dict[str, int]
    grey: int
    imbalance: float
    broken: list[tuple[str, str]]
    empty: list[str]
    duplicates: list[list[str]]
    two_classes: list[list[str]]
    leaks: list[list[str]]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def list_files(root: Path) -> tuple[list[ImageFile], list[str]]:
    """The image files of a folder by part and class, and the classes without any."""
    if not root.is_dir():
        raise UserError(f"there is no folder {root}")
    parts = {"train": root}
    tests = [name for name in TEST_NAMES if (root / name).is_dir()]
    if (root / "train").is_dir():
        parts = {"train": root / "train", **({"test": root / tests[0]} if tests else {})}
    files, empty = [], []
    for part, folder in parts.items():
        for label in sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")):
            found = sorted(p for p in _walk(folder / label) if p.suffix.lower() in SUFFIXES)
            files += [ImageFile(path, label, part) for path in found]
            empty += [] if found else [f"{part}/{label}" if "test" in parts else label]
    if not files:
        loose = sum(p.suffix.lower() in SUFFIXES for p in root.iterdir() if p.is_file())
        hint = (
            f"its {loose} images lie at the top: put each class in a sub-folder of its own" if loose else "it is empty"
        )
        raise UserError(
            f"{root} holds no images in class folders (CLASS/*.jpg, or train/CLASS/* and test/CLASS/*): {hint}"
        )
    if len({file.label for file in files}) == 1 and "test" not in parts:
        inner = root / files[0].label
        deeper = [p.name for p in inner.iterdir() if p.is_dir()]
        if len(deeper) > 1:
            raise UserError(f"{root} has one folder only, {inner.name}, which holds {len(deeper)} more: use {inner}")
    return files, empty


def _walk(folder: Path) -> Iterator[Path]:
    """Files below a folder, through links too, but no folder twice."""
    seen: set[str] = set()
    for here, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(here)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        yield from (Path(here) / name for name in names)


def read_all(files: Sequence[ImageFile]) -> list[ImageFile]:
    """The same files with size, kind and a digest of their pixels, or the reason why they cannot be read.

    What was read is kept beside the decoded images, so that a folder that did not change is not read again.
    """

    def one(file: ImageFile) -> dict[str, Any]:
        try:
            image = read_image(file.path)
        except BrokenImageError as error:
            return {"broken": str(error)}
        digest = hashlib.sha256(f"{image.size}".encode() + image.convert("RGB").tobytes()).hexdigest()
        return {"width": image.width, "height": image.height, "grey": image.mode == "L", "pixels": digest}

    kept = decoded_root() / f"{digest_of([file.path for file in files], 'read')}.json"
    if kept.exists():
        told = json.loads(kept.read_text())
    else:
        with ThreadPoolExecutor(os.cpu_count()) as pool, Progress(console=Console(stderr=True), transient=True) as bar:
            told = list(bar.track(pool.map(one, files), total=len(files), description="reading images"))
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_json(kept, told)
    return [replace(file, **what) for file, what in zip(files, told, strict=True)]


def examine(root: Path) -> tuple[Health, list[ImageFile]]:
    """The health of a folder and its files."""
    listed, empty = list_files(root)
    files = read_all(listed)
    good = [file for file in files if not file.broken]
    counts: dict[str, dict[str, int]] = defaultdict(lambda: {"train": 0, "test": 0})
    same: dict[str, list[ImageFile]] = defaultdict(list)
    for file in good:
        counts[file.label][file.part] += 1
        same[file.pixels].append(file)
    groups = [group for group in same.values() if len(group) > 1]

    def told(chosen: Sequence[Sequence[ImageFile]]) -> list[list[str]]:
        return [[str(file.path.relative_to(root)) for file in group] for group in chosen]

    trained = [each["train"] for each in counts.values() if each["train"]]
    health = Health(
        classes={label: dict(each) for label, each in sorted(counts.items())},
        sizes=dict(Counter(f"{file.width}x{file.height}" for file in good).most_common(10)),
        grey=sum(file.grey for file in good),
        imbalance=max(trained) / min(trained) if trained else 0.0,
        broken=[(str(file.path.relative_to(root)), file.broken) for file in files if file.broken],
        empty=empty,
        duplicates=told([g for g in groups if len({f.label for f in g}) == 1 and len({f.part for f in g}) == 1]),
        two_classes=told([g for g in groups if len({f.label for f in g}) > 1]),
        leaks=told([g for g in groups if len({f.part for f in g}) > 1]),
    )
    return health, good


@dataclass(frozen=True, kw_only=True)
class FolderOptions:
    """What can be said of a folder after its path: `folder:PATH,size=96,test=10`."""

    size: int = option(0, "height and width that images are brought to; 0: their own if all agree, else 64")
    test: int = option(20, "percent held out for testing where there is no test folder")
    seed: int = option(0, "what the held-out images are drawn from")
    strict: int = option(0, "1: a file that cannot be read is an error, not a note")


def load_folder(text: str) -> Dataset:
    """`PATH` or `PATH,size=96,test=10`."""
    found = re.fullmatch(r"(.*?)((?:,\w+=[^,/]*)*)", text)
    assert found
    root, options = Path(found[1]).expanduser(), parse_options(FolderOptions, found[2].lstrip(","), "folder")
    health, good = examine(root)
    if options.strict and health.broken:
        raise UserError(
            f"{len(health.broken)} files cannot be read, first {root / health.broken[0][0]}: {health.broken[0][1]}"
        )
    classes = sorted({file.label for file in good if file.part == "train"})
    train = [file for file in good if file.part == "train"]
    test = [file for file in good if file.part == "test" and file.label in classes]
    if not test:
        train, test = hold_out(train, options.test, options.seed)
    size = options.size or _own_size(good)
    channels = 1 if all(file.grey for file in good) else 3

    number = {label: k for k, label in enumerate(classes)}
    paths = [file.path for file in (*train, *test)]
    photos = Photos(Photos.names(paths), size, channels, scale=SCALE) if size > CACHED_SIZE else None
    inputs = torch.arange(len(paths)) if photos else decode(paths, size, channels, root.name)
    every = Samples(inputs, torch.tensor([number[file.label] for file in (*train, *test)]))
    some = torch.arange(0, len(train), max(1, len(train) // MEASURED)).split(64)
    mean, std = statistics(photos.batches(inputs, some, augment=False) if photos else (inputs[part] for part in some))
    crop = PadCrop(max(1, size // 8)) if size <= 32 else RandomResizedCrop(size, scale=SCALE)
    return Dataset(
        name=f"folder:{root.name}",
        train=every[: len(train)],
        test=every[len(train) :],
        classes=tuple(classes),
        transform=Transform(mean, std, (Flip(0.5),) if photos else (crop, Flip(0.5)), photos),
        backbone="medium" if size <= CACHED_SIZE else "resnet18-7x7",
        recipe="quick",
        memory="20/class",
        tasks=min(5, len(classes)),
        notes=tuple(notes_on(health)),
    )


def _own_size(files: Sequence[ImageFile]) -> int:
    sizes = {(file.width, file.height) for file in files}
    width, height = next(iter(sizes))
    return width if len(sizes) == 1 and width == height and width <= CACHED_SIZE else CACHED_SIZE


def hold_out(files: Sequence[ImageFile], percent: int, seed: int) -> tuple[list[ImageFile], list[ImageFile]]:
    """A seeded split, the same share of each class and at least one image of it."""
    draw = np.random.default_rng(seed)
    train, test = [], []
    for label in sorted({file.label for file in files}):
        members = [file for file in files if file.label == label]
        if len(members) < 2:
            raise UserError(f"class '{label}' has one image: it cannot be trained and tested on; add images or test/")
        chosen = set(draw.permutation(len(members))[: max(1, len(members) * percent // 100)].tolist())
        test += [file for i, file in enumerate(members) if i in chosen]
        train += [file for i, file in enumerate(members) if i not in chosen]
    return train, test


def notes_on(health: Health) -> Iterator[str]:
    """What a user should hear of a folder's health."""
    if health.broken:
        path, reason = health.broken[0]
        yield f"{len(health.broken)} files cannot be read and were left out, such as {path}: {reason}"
    if health.empty:
        yield f"folders without images: {', '.join(health.empty[:5])}"
    if health.two_classes:
        yield f"{len(health.two_classes)} images lie in two classes, such as {' = '.join(health.two_classes[0])}"
    if health.leaks:
        yield f"{len(health.leaks)} images are in train and in test, such as {' = '.join(health.leaks[0])}"


def statistics(parts: Iterable[Tensor]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each channel, rounded so that they read well in a record."""
    pixels, total, squares = 0, torch.zeros(()), torch.zeros(())
    for part in parts:
        values = part.transpose(0, 1).flatten(1).double() / 255
        pixels, total, squares = pixels + values.shape[1], total + values.sum(1), squares + values.square().sum(1)
    mean = total / pixels
    std = (squares / pixels - mean**2).clamp(min=0).sqrt().clamp(min=1e-3)
    return tuple(round(v, 4) for v in mean.tolist()), tuple(round(v, 4) for v in std.tolist())


NPZ_KEYS = ("train_x", "train_y", "test_x", "test_y")


def load_npz(text: str) -> Dataset:
    """An npz with train_x, train_y, test_x, test_y (images N x H x W or N x H x W x C, uint8) and perhaps classes."""
    path = Path(text).expanduser()
    try:
        with np.load(path, allow_pickle=False) as content:
            arrays: Mapping[str, np.ndarray] = {key: content[key] for key in content.files}
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} cannot be read as npz: {error}") from None
    if missing := [key for key in NPZ_KEYS if key not in arrays]:
        raise UserError(f"{path} lacks {', '.join(missing)}; it holds {', '.join(arrays)}")
    train, test = (_npz_samples(path, arrays[f"{part}_x"], arrays[f"{part}_y"]) for part in ("train", "test"))
    num = int(train.labels.max()) + 1
    names = [str(name) for name in arrays["classes"]] if "classes" in arrays else [str(k) for k in range(num)]
    mean, std = statistics(train.inputs[:: max(1, len(train) // MEASURED)].split(64))
    return Dataset(
        name=f"npz:{path.name}",
        train=train,
        test=test,
        classes=tuple(names),
        transform=Transform(mean, std, (PadCrop(max(1, train.inputs.shape[-1] // 8)),)),
        backbone="small",
        recipe="quick",
        memory="20/class",
        tasks=min(5, len(names)),
    )


def _npz_samples(path: Path, images: np.ndarray, labels: np.ndarray) -> Samples:
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise UserError(f"{path}: images must be uint8, N x H x W or N x H x W x C, not {images.dtype} {images.shape}")
    images = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    return Samples(torch.from_numpy(np.ascontiguousarray(images)), torch.from_numpy(labels.astype(np.int64)))


def report_json(health: Health) -> str:
    return json.dumps(health.to_json(), indent=1, ensure_ascii=False)
