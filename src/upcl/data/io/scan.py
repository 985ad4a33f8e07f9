"""Scan of a folder of images: classes, sizes, broken files, duplicates and leaks between training and test images."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from upcl.core.files import write_json
from upcl.core.progress import track

from .decoding import files_digest, note_unwritable
from .images import BrokenImageError, UnreachableImageError, open_image
from .listing import FolderListing, ImageFile, counted, list_image_files
from .paths import decoded_root, printable_path

Group = list[str]  # paths of files with equal pixels


@dataclass(frozen=True)
class FolderReport:
    """Content of a folder of images, and everything that is wrong with it.

    Args:
        classes: number of readable "train" and "test" images per class.
        sizes: number of images per size, such as "640x480"; the most frequent first.
        grey: number of grey images.
        imbalance: ratio of the largest to the smallest class in the training split.
        broken: files that cannot be read, with the reason.
        empty: class folders without images.
        duplicates: groups of equal images within one class and split.
        label_conflicts: groups of equal images in different classes.
        train_test_leaks: groups of equal images in both splits.
        layout_notes: remarks about the layout of the folder.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from upcl.data.io.images import encode_png
        >>> root = Path(tempfile.mkdtemp())
        >>> for name in ("robin/1.png", "robin/2.png"):
        ...     (root / name).parent.mkdir(exist_ok=True)
        ...     _ = (root / name).write_bytes(encode_png(np.zeros((3, 4, 6), np.uint8)))
        >>> report, files = scan_folder(root)
        >>> list(report.notes())
        ['1 image more than once in a class, such as robin/1.png = robin/2.png']
    """

    classes: dict[str, dict[str, int]]
    sizes: dict[str, int]
    grey: int
    imbalance: float
    broken: list[tuple[str, str]]
    empty: list[str]
    duplicates: list[Group]
    label_conflicts: list[Group]
    train_test_leaks: list[Group]
    layout_notes: list[str]

    def to_json(self) -> dict[str, Any]:
        """The report as JSON-serialisable values, with one key per attribute."""
        return asdict(self)

    def notes(self) -> Iterator[str]:
        """Sentences that a user should read before training on the folder."""
        yield from self.layout_notes
        if self.broken:
            path, reason = self.broken[0]
            hint = " (`upcl data check FOLDER` lists all)" if len(self.broken) > 1 else ""
            yield f"{counted(len(self.broken), 'file')} skipped: cannot be read, such as {path}: {reason}{hint}"
        if unread := [label for label, counts in self.classes.items() if not any(counts.values())]:
            yield f"classes skipped: none of their files can be read: {', '.join(unread[:5])}"
        if self.empty:
            yield f"folders without images: {', '.join(self.empty[:5])}"
        groups = {
            "more than once in a class": self.duplicates,
            "in more than one class": self.label_conflicts,
            "in both train and test": self.train_test_leaks,
        }
        for fault, found in groups.items():
            if found:
                yield f"{counted(len(found), 'image')} {fault}, such as {' = '.join(found[0])}"


def scan_folder(root: Path) -> tuple[FolderReport, list[ImageFile]]:
    """Read every image of a folder and report what is in it.

    Args:
        root: a folder in the layout `CLASS/*`, or `train/CLASS/*` and `test/CLASS/*`.

    Returns:
        The report, and the files that can be read.

    Raises:
        UserError: the folder has no images in class folders.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from upcl.data.io.images import encode_png
        >>> root = Path(tempfile.mkdtemp())
        >>> for k, name in enumerate(("crow/1.png", "robin/1.png", "robin/2.png")):
        ...     (root / name).parent.mkdir(exist_ok=True)
        ...     _ = (root / name).write_bytes(encode_png(np.full((3, 4, 6), k, np.uint8)))
        >>> report, files = scan_folder(root)
        >>> report.classes
        {'crow': {'train': 1, 'test': 0}, 'robin': {'train': 2, 'test': 0}}
        >>> [(file.width, file.height) for file in files]
        [(6, 4), (6, 4), (6, 4)]
    """
    listing = list_image_files(root)
    files = inspect_files(listing.files)
    return report_on(root, listing, files), [file for file in files if not file.error]


def inspect_files(files: Sequence[ImageFile]) -> list[ImageFile]:
    """Read image files for their size, colour and a digest of their pixels, or the reason why they cannot be read.

    The result is cached next to decoded images, so an unchanged folder is not read again. Errors of the operating
    system are not cached, as they may pass. A damaged cache is rebuilt, and one that cannot be written is not used.

    Args:
        files: the files; those that have an error already are not read.

    Returns:
        The same files in the same order, completed.

    Example:
        >>> inspect_files([ImageFile(Path("lost.jpg"), "crow", "train", error="broken link")])[0].error
        'broken link'
    """
    readable = [file for file in files if not file.error]
    cache = decoded_root() / f"{files_digest([file.path for file in readable], 'scan')}.json"
    found = _load(cache, len(readable))
    if found is None:
        found, cacheable = list[dict[str, Any]](), True
        with ThreadPoolExecutor(os.cpu_count()) as pool, track("reading images", len(readable)) as advance:
            for properties, permanent in pool.map(_inspect, readable):
                found.append(properties)
                cacheable = cacheable and permanent
                advance(1)
        if cacheable:
            try:
                cache.parent.mkdir(parents=True, exist_ok=True)
                write_json(cache, found)
            except OSError as error:
                note_unwritable(error)
    properties_of = iter(found)
    return [file if file.error else replace(file, **next(properties_of)) for file in files]


def _load(path: Path, num: int) -> list[dict[str, Any]] | None:
    """What `_inspect` found earlier; None if it is not there, or is not what it should be."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):  # the latter two: a damaged file
        return None
    intact = isinstance(found, list) and len(found) == num and all(map(_is_found, found))
    return found if intact else None


def _is_found(properties: Any) -> bool:
    if not isinstance(properties, dict):
        return False
    kinds = {key: type(value) for key, value in properties.items()}
    return kinds in ({"error": str}, {"width": int, "height": int, "grey": bool, "digest": str})


def _inspect(file: ImageFile) -> tuple[dict[str, Any], bool]:
    """The properties of an image, and whether they will be the same next time."""
    try:
        with open_image(file.path) as image:
            digest = hashlib.sha256(f"{image.size}".encode())
            for strip in image.strips():
                digest.update(strip.convert("RGB").tobytes())
    except BrokenImageError as error:
        return {"error": str(error)}, not isinstance(error, UnreachableImageError)
    width, height = image.size
    return {"width": width, "height": height, "grey": image.mode == "L", "digest": digest.hexdigest()}, True


def report_on(root: Path, listing: FolderListing, files: Sequence[ImageFile]) -> FolderReport:
    """Report on image files that have been read.

    Args:
        root: the folder.
        listing: what was found in it.
        files: its files, completed with what reading them revealed.

    Example:
        >>> file = ImageFile(Path("birds/robin/1.jpg"), "robin", "train", width=640, height=480, digest="a")
        >>> report_on(Path("birds"), FolderListing([file], [], []), [file]).sizes
        {'640x480': 1}
    """
    counts: dict[str, dict[str, int]] = {file.label: {"train": 0, "test": 0} for file in files}
    copies: dict[str, list[ImageFile]] = defaultdict(list)
    readable = [file for file in files if not file.error]
    for file in readable:
        counts[file.label][file.split] += 1
        copies[file.digest].append(file)

    def name(file: ImageFile) -> str:
        return printable_path(file.path.relative_to(root))

    duplicates, label_conflicts, train_test_leaks = list[Group](), list[Group](), list[Group]()
    for group in copies.values():
        same_class, same_split = len({file.label for file in group}) == 1, len({file.split for file in group}) == 1
        names = [name(file) for file in group]
        if len(group) > 1 and same_class and same_split:
            duplicates.append(names)
        if not same_class:
            label_conflicts.append(names)
        if not same_split:
            train_test_leaks.append(names)
    num_train = [count["train"] for count in counts.values() if count["train"]]
    return FolderReport(
        classes=dict(sorted(counts.items())),
        sizes=dict(Counter(f"{file.width}x{file.height}" for file in readable).most_common()),
        grey=sum(file.grey for file in readable),
        imbalance=max(num_train) / min(num_train) if num_train else 0.0,
        broken=[(name(file), file.error) for file in files if file.error],
        empty=listing.empty,
        duplicates=duplicates,
        label_conflicts=label_conflicts,
        train_test_leaks=train_test_leaks,
        layout_notes=listing.layout_notes,
    )
