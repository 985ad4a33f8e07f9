"""Listing of the image files of a folder: which class and which split each belongs to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from upcl.core.errors import UserError

from .images import IMAGE_SUFFIXES, list_images
from .paths import printable_path

TRAIN_NAMES = ("train", "training")
TEST_NAMES = ("test", "testing", "val", "valid", "validation")


READ_FORMATS = "JPEG, PNG, WebP, BMP, GIF and TIFF"


@dataclass(frozen=True)
class ImageFile:
    """Image file with its class; `scan_folder` adds what reading it reveals.

    Args:
        path: the file.
        label: the name of its class, safe to print.
        split: "train" or "test".
        width: width of the image in pixels.
        height: height of the image in pixels.
        grey: whether the image has one channel.
        digest: identifies the size and the pixels; equal for copies, whatever their file format.
        error: why the file cannot be read; empty if it can.

    Example:
        >>> ImageFile(Path("birds/robin/1.jpg"), label="robin", split="train").error
        ''
    """

    path: Path
    label: str
    split: str
    width: int = 0
    height: int = 0
    grey: bool = False
    digest: str = ""
    error: str = ""


@dataclass(frozen=True)
class FolderListing:
    """Image files of a folder, before any of them is read.

    Args:
        files: the image files by split and class.
        empty: class folders without images.
        layout_notes: remarks about the layout that a user should know.

    Example:
        >>> FolderListing(files=[], empty=["robin"], layout_notes=[]).empty
        ['robin']
    """

    files: list[ImageFile]
    empty: list[str]
    layout_notes: list[str]


def list_image_files(root: Path) -> FolderListing:
    """List images in the layout `CLASS/*`, or `train/CLASS/*` and `test/CLASS/*`.

    Class folders are searched recursively. Hidden files are ignored, links are followed but never in circles.

    Args:
        root: the folder of images.

    Raises:
        UserError: the folder does not exist, has no images in class folders, or has a test part only.

    Example:
        >>> import tempfile
        >>> root = Path(tempfile.mkdtemp())
        >>> for name in ("robin/1.jpg", "robin/2.jpg", "crow/1.jpg", "crow/notes.txt"):
        ...     (root / name).parent.mkdir(exist_ok=True)
        ...     (root / name).touch()
        >>> listing = list_image_files(root)
        >>> [file.label for file in listing.files]
        ['crow', 'robin', 'robin']
        >>> listing.layout_notes
        ['1 file skipped, such as notes.txt: JPEG, PNG, WebP, BMP, GIF and TIFF are read']
    """
    if not root.is_dir():
        raise UserError(f"there is no folder {printable_path(root)}")
    splits, layout_notes = _find_splits(root)
    files, empty, skipped = [], [], list[Path]()
    for split, folder in splits.items():
        for class_folder in sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")):
            label = printable_path(class_folder.name)
            paths = sorted(_walk(class_folder))
            images = [p for p in paths if p.suffix.lower() in IMAGE_SUFFIXES]
            skipped += [p for p in paths if p.suffix.lower() not in IMAGE_SUFFIXES]
            files += [ImageFile(path, label, split, error=_file_error(path)) for path in images]
            empty += [] if images else [f"{split}/{label}" if "test" in splits else label]
    if not files:
        raise _no_images(root)
    if skipped:
        example = printable_path(skipped[0].name)
        layout_notes.append(f"{counted(len(skipped), 'file')} skipped, such as {example}: {READ_FORMATS} are read")
    layout_notes += _check_depth(root, splits["train"], files)
    return FolderListing(files, empty, layout_notes)


def counted(num: int, noun: str) -> str:
    """A number with its noun in the right form.

    Args:
        num: the number.
        noun: the singular of a regular noun.

    Example:
        >>> counted(1, "image"), counted(2, "image")
        ('1 image', '2 images')
    """
    return f"{num} {noun}" if num == 1 else f"{num} {noun}s"


def _no_images(root: Path) -> UserError:
    num = sum(p.suffix.lower() in IMAGE_SUFFIXES for p in root.iterdir() if p.is_file())
    hint = (
        f"found {counted(num, 'image')} at the top level; put each class in its own sub-folder"
        if num
        else "it is empty"
    )
    layout = "CLASS/*, or train/CLASS/* and test/CLASS/*"
    return UserError(f"{printable_path(root)} has no images in class folders ({layout}): {hint}")


def _find_splits(root: Path) -> tuple[dict[str, Path], list[str]]:
    """The folders of the training and the test split; an ambiguous name is an error rather than a class.

    A folder with images directly in it is a class, whatever its name (bus, car, train).
    """
    named = {p.name.lower(): p for p in root.iterdir() if p.is_dir() and not list_images(p)}
    train = next((named[name] for name in TRAIN_NAMES if name in named), None)
    tests = [named[name] for name in TEST_NAMES if name in named]
    if train is None:
        if tests:
            raise UserError(
                f"{printable_path(root)} has a folder {tests[0].name} but none named train: rename the folder with the "
                "training images to train, or choose a folder that contains only classes"
            )
        return {"train": root}, []
    notes = [f"{p.name} is ignored: {tests[0].name} is used for testing" for p in tests[1:]]
    return {"train": train, **({"test": tests[0]} if tests else {})}, notes


def _check_depth(root: Path, train: Path, files: Sequence[ImageFile]) -> Iterator[str]:
    """Notice classes that seem to lie one level deeper than expected."""
    below = [file.path.relative_to(train).parts for file in files if file.split == "train"]
    inner = {parts[1] for parts in below if len(parts) > 2}
    if any(len(parts) == 2 for parts in below) or len(inner) < 2:
        return
    labels = sorted({file.label for file in files})
    if len(labels) == 1 and train == root:
        raise UserError(
            f"{printable_path(root)} contains a single folder, {labels[0]}, with {len(inner)} sub-folders: "
            f"use {root / labels[0]}"
        )
    examples = ", ".join(printable_path(name) for name in sorted(inner)[:3])
    yield f"all images are one level below the classes ({', '.join(labels[:3])}): should {examples} be the classes?"


def _file_error(path: Path) -> str:
    if path.is_file():
        return ""
    return "broken link" if path.is_symlink() else "not a regular file"


def _walk(folder: Path) -> Iterator[Path]:
    """Files below a folder except hidden ones; links are followed, but no folder twice and none that contains it."""
    seen = {str(parent) for parent in folder.resolve().parents}
    for current, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(current)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(current) / name for name in names if not name.startswith("."))
