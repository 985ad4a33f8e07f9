"""The health of a folder of images: what lies where, what cannot be read, what is there twice."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from upcl.core.errors import UserError
from upcl.core.files import write_json
from upcl.core.progress import track

from .images import SUFFIXES, BrokenImageError, UnreachableImageError, files_digest, images_in, read_image
from .paths import decoded_root

TRAIN_NAMES = ("train", "training")
TEST_NAMES = ("test", "testing", "val", "valid", "validation")


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
class Listing:
    """The image files of a folder by part and class, classes without any, and what a user should hear."""

    files: list[ImageFile]
    empty: list[str]
    remarks: list[str]


@dataclass(frozen=True)
class FolderReport:
    """What is in a folder, good and bad. Lists of lists are groups of files with equal pixels."""

    classes: dict[str, dict[str, int]]
    sizes: dict[str, int]
    grey: int
    imbalance: float
    broken: list[tuple[str, str]]
    empty: list[str]
    duplicates: list[list[str]]
    two_classes: list[list[str]]
    leaks: list[list[str]]
    remarks: list[str]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def notes(self) -> Iterator[str]:
        """What a user should hear before training."""
        yield from self.remarks
        if self.broken:
            path, reason = self.broken[0]
            yield f"{len(self.broken)} files cannot be read and were left out, such as {path}: {reason}" + (
                " (`upcl data check FOLDER` lists all)" if len(self.broken) > 1 else ""
            )
        if unread := [label for label, counts in self.classes.items() if not any(counts.values())]:
            yield f"classes were left out, as none of their files can be read: {', '.join(unread[:5])}"
        if self.empty:
            yield f"folders without images: {', '.join(self.empty[:5])}"
        if self.duplicates:
            yield f"{len(self.duplicates)} images lie twice in a class, such as {' = '.join(self.duplicates[0])}"
        if self.two_classes:
            yield f"{len(self.two_classes)} images lie in two classes, such as {' = '.join(self.two_classes[0])}"
        if self.leaks:
            yield f"{len(self.leaks)} images are in train and in test, such as {' = '.join(self.leaks[0])}"


def printable_path(name: str | Path) -> str:
    """A name that can be printed, also where its bytes are not UTF-8 or steer a terminal."""
    return printable(os.fsencode(name).decode("utf-8", "backslashreplace"))


def printable(text: str) -> str:
    """Text without characters that steer a terminal."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda found: found[0].encode("unicode_escape").decode(), text)


def list_files(root: Path) -> Listing:
    """Look for CLASS/*, or train/CLASS/* and test/CLASS/*."""
    if not root.is_dir():
        raise UserError(f"there is no folder {printable_path(root)}")
    parts, remarks = _parts(root)
    files, empty, others = [], [], list[Path]()
    for part, folder in parts.items():
        for inner in sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")):
            label = printable_path(inner.name)
            inside = sorted(_walk(inner))
            found = [p for p in inside if p.suffix.lower() in SUFFIXES]
            others += [p for p in inside if p.suffix.lower() not in SUFFIXES]
            files += [ImageFile(path, label, part, broken=_not_a_file(path)) for path in found]
            empty += [] if found else [f"{part}/{label}" if "test" in parts else label]
    if not files:
        loose = sum(p.suffix.lower() in SUFFIXES for p in root.iterdir() if p.is_file())
        hint = (
            f"its {loose} images lie at the top: put each class in a sub-folder of its own" if loose else "it is empty"
        )
        raise UserError(
            f"{printable_path(root)} holds no images in class folders (CLASS/*, or train/CLASS/* and test/CLASS/*): {hint}"
        )
    if others:
        remarks.append(f"{len(others)} files are no images by their names, such as {printable_path(others[0].name)}")
    _check_level(root, parts["train"], files, remarks)
    return Listing(files, empty, remarks)


def _parts(root: Path) -> tuple[dict[str, Path], list[str]]:
    """Where training and test images lie; a folder of the wrong name is not silently taken for a class.

    A folder with images right in it is a class, whatever its name (bus, car, train).
    """
    named = {p.name.lower(): p for p in root.iterdir() if p.is_dir() and not images_in(p)}
    train = next((named[name] for name in TRAIN_NAMES if name in named), None)
    tests = [named[name] for name in TEST_NAMES if name in named]
    if train is None:
        if tests:
            raise UserError(
                f"{printable_path(root)} has a folder {tests[0].name} but none named train: name the training part train, or "
                "give a folder with the classes only"
            )
        return {"train": root}, []
    remarks = [f"{p.name} is not used: {tests[0].name} is the test part" for p in tests[1:]]
    return {"train": train, **({"test": tests[0]} if tests else {})}, remarks


def _check_level(root: Path, train: Path, files: Sequence[ImageFile], remarks: list[str]) -> None:
    """Say so where the classes seem to lie a folder deeper than where they were looked for."""
    deeper = {
        file.path.relative_to(train).parts[1] for file in files if file.part == "train" and _depth(file, train) > 1
    }
    shallow = any(_depth(file, train) == 1 for file in files if file.part == "train")
    labels = sorted({file.label for file in files})
    if shallow or len(deeper) < 2:
        return
    if len(labels) == 1 and train == root:
        inner = root / labels[0]
        raise UserError(
            f"{printable_path(root)} has one folder only, {inner.name}, which holds {len(deeper)} more: use {inner}"
        )
    some = ", ".join(printable_path(name) for name in sorted(deeper)[:3])
    remarks.append(
        f"all images lie a folder deeper than the classes ({', '.join(labels[:3])}): are {some} the classes?"
    )


def _depth(file: ImageFile, train: Path) -> int:
    """1: right in its class folder."""
    return len(file.path.relative_to(train).parts) - 1


def _not_a_file(path: Path) -> str:
    if path.is_file():
        return ""
    return "is a link that leads nowhere" if path.is_symlink() else "is not a file"


def _walk(folder: Path) -> Iterator[Path]:
    """Files below a folder but hidden ones, through links too, no folder twice and none that the folder lies in."""
    seen = {str(parent) for parent in folder.resolve().parents}
    for here, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(here)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(here) / name for name in names if not name.startswith("."))


def read_all(files: Sequence[ImageFile]) -> list[ImageFile]:
    """The same files with size, kind and a digest of their pixels, or the reason why they cannot be read.

    What was read is kept beside the decoded images, so that a folder that did not change is not read again; not so
    where the disk or a permission was to blame.
    """

    def one(file: ImageFile) -> dict[str, Any]:
        try:
            image = read_image(file.path)
        except UnreachableImageError as error:
            return {"broken": str(error), "for_now": True}
        except BrokenImageError as error:
            return {"broken": str(error)}
        digest = hashlib.sha256(f"{image.size}".encode() + image.convert("RGB").tobytes()).hexdigest()
        return {"width": image.width, "height": image.height, "grey": image.mode == "L", "pixels": digest}

    there = [file for file in files if not file.broken]
    kept = decoded_root() / f"{files_digest([file.path for file in there], 'read')}.json"
    if kept.exists():
        told = json.loads(kept.read_text())
    else:
        told = []
        with ThreadPoolExecutor(os.cpu_count()) as pool, track("reading images", len(there)) as advance:
            for each in pool.map(one, there):
                told.append(each)
                advance(1)
        for_now = [each.pop("for_now", False) for each in told]
        if not any(for_now):
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_json(kept, told)
    read = iter(told)
    return [file if file.broken else replace(file, **next(read)) for file in files]


def scan_folder(root: Path) -> tuple[FolderReport, list[ImageFile]]:
    """The health of a folder, and its files that can be read."""
    listing = list_files(root)
    files = read_all(listing.files)
    good = [file for file in files if not file.broken]
    counts: dict[str, dict[str, int]] = {file.label: {"train": 0, "test": 0} for file in files}
    same: dict[str, list[ImageFile]] = defaultdict(list)
    for file in good:
        counts[file.label][file.part] += 1
        same[file.pixels].append(file)
    groups = [group for group in same.values() if len(group) > 1]

    def told(chosen: Sequence[Sequence[ImageFile]]) -> list[list[str]]:
        return [[printable_path(file.path.relative_to(root)) for file in group] for group in chosen]

    trained = [each["train"] for each in counts.values() if each["train"]]
    health = FolderReport(
        classes=dict(sorted(counts.items())),
        sizes=dict(Counter(f"{file.width}x{file.height}" for file in good).most_common()),
        grey=sum(file.grey for file in good),
        imbalance=max(trained) / min(trained) if trained else 0.0,
        broken=[(printable_path(file.path.relative_to(root)), file.broken) for file in files if file.broken],
        empty=listing.empty,
        duplicates=told([g for g in groups if len({f.label for f in g}) == 1 and len({f.part for f in g}) == 1]),
        two_classes=told([g for g in groups if len({f.label for f in g}) > 1]),
        leaks=told([g for g in groups if len({f.part for f in g}) > 1]),
        remarks=listing.remarks,
    )
    return health, good


def report_json(health: FolderReport) -> str:
    return json.dumps(health.to_json(), indent=1)
