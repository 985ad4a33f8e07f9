"""What loaders of image files share: files with labels become a data set, and sets without a split get one."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from upcl.core.errors import UserError
from upcl.core.types import Samples
from upcl.data.dataset import Dataset
from upcl.data.defaults import IMAGENET_MEAN, IMAGENET_STD
from upcl.data.io.crops import Photos
from upcl.data.io.images import list_images
from upcl.data.transforms import Augmentation, Flip, Transform

SIZE = 224
TEST_SHARE = 5  # one image of five is a test image

LabelledPaths = list[tuple[Path, int]]


def listed_path(folder: Path, name: str, source: Path) -> Path:
    """The path of a file that a list names; it must lie in the folder.

    Args:
        folder: the folder that the names are relative to.
        name: a relative path with slashes.
        source: the list, for messages.

    Raises:
        UserError: the name leads out of the folder.

    Example:
        >>> listed_path(Path("images"), "crow/1.jpg", Path("images.txt")).as_posix()
        'images/crow/1.jpg'
        >>> listed_path(Path("images"), "../1.jpg", Path("images.txt"))
        Traceback (most recent call last):
        upcl.core.errors.UserError: images.txt: '../1.jpg' is not a file in images
    """
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or "\0" in name:
        raise UserError(f"{source}: '{name}' is not a file in {folder}")
    return folder / name


def class_images(folder: Path, names: Sequence[str]) -> LabelledPaths:
    """The images in the folders of classes, sorted by name, with the positions of the classes as labels.

    Args:
        folder: the folder that holds a folder per class.
        names: the names of these folders.

    Raises:
        UserError: a folder is missing.

    Example:
        >>> import tempfile
        >>> root = Path(tempfile.mkdtemp())
        >>> for name in ("crow/1.jpg", "robin/1.jpg", "robin/._1.jpg"):
        ...     (root / name).parent.mkdir(exist_ok=True)
        ...     (root / name).touch()
        >>> [(path.parent.name, label) for path, label in class_images(root, ["robin", "crow"])]
        [('robin', 0), ('crow', 1)]
    """
    if missing := [name for name in names if not (folder / name).is_dir()]:
        raise UserError(f"{folder} has no folder {missing[0]}: the copy is incomplete, unpack the archive again")
    found = ((path, label) for label, name in enumerate(names) for path in list_images(folder / name))
    return [(path, label) for path, label in found if not path.name.startswith(".")]


def split_by_name(files: LabelledPaths) -> tuple[LabelledPaths, LabelledPaths]:
    """Split the images of a data set without an official split: of each class, a fifth becomes the test set.

    These are the images whose names (`CLASS/FILE`) have the smallest SHA-256. So the split depends on nothing but the
    names: not on a generator, on the order of the files, or on the other classes.

    Args:
        files: image files in folders of their classes, with labels.

    Returns:
        The training files and the test files, in the given order.

    Raises:
        UserError: a class has a single image.

    Example:
        >>> train, test = split_by_name([(Path(f"crow/{k}.jpg"), 0) for k in range(10)])
        >>> len(train), [path.name for path, _ in test]
        (8, ['1.jpg', '8.jpg'])
    """
    members: dict[int, list[tuple[bytes, Path]]] = {}
    for path, label in files:
        digest = hashlib.sha256(os.fsencode(f"{path.parent.name}/{path.name}")).digest()
        members.setdefault(label, []).append((digest, path))
    if single := [paths[0][1].parent for paths in members.values() if len(paths) < 2]:
        raise UserError(f"{single[0]} has a single image, but training and testing need at least one each")
    chosen = {path for paths in members.values() for _, path in sorted(paths)[: max(1, len(paths) // TEST_SHARE)]}
    return [file for file in files if file[0] not in chosen], [file for file in files if file[0] in chosen]


def photo_dataset(
    name: str,
    folder: Path,
    train: LabelledPaths,
    test: LabelledPaths,
    classes: Sequence[str],
    *,
    size: int = SIZE,
    augmentations: tuple[Augmentation, ...] = (Flip(0.5),),
    crops: Mapping[str, Any] | None = None,
    **defaults: Any,
) -> Dataset:
    """A data set of images that stay in their files: random crops for training, central ones for testing.

    Args:
        name: the name of the data set.
        folder: the folder that holds all files.
        train: training images with labels.
        test: test images with labels.
        classes: class names.
        size: height and width of the crops.
        augmentations: what happens to a crop for training.
        crops: other options of `Photos`.
        defaults: fields of `Dataset` that differ: memory, tasks, notes.

    Raises:
        UserError: a file is missing, or a class has no image.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("a.jpg", "b.jpg"):
        ...     (folder / name).touch()
        >>> dataset = photo_dataset("crows", folder, [(folder / "a.jpg", 0)], [(folder / "b.jpg", 0)], ["crow"])
        >>> dataset.image_shape, dataset.train.inputs.tolist(), dataset.test.inputs.tolist()
        ((3, 224, 224), [0], [1])
    """
    files = [path for path, _ in (*train, *test)]
    labels = torch.tensor([label for _, label in (*train, *test)], dtype=torch.int64)
    samples = Samples(torch.arange(len(files)), labels)
    photos = Photos.from_files(files, size, files_identity(folder, files), **(crops or {}))
    return Dataset(
        name=name,
        train=samples[: len(train)],
        test=samples[len(train) :],
        classes=tuple(classes),
        transform=Transform(IMAGENET_MEAN, IMAGENET_STD, augmentations, photos),
        backbone="resnet18-7x7",
        **defaults,
    )


def files_identity(folder: Path, files: Sequence[Path]) -> str:
    """A digest of the files' names and sizes: reading them all would take hours.

    Args:
        folder: the folder that the names are relative to.
        files: image files in it.

    Raises:
        UserError: a file is missing.

    Example:
        >>> files_identity(Path("images"), [Path("images/crow.jpg")])
        Traceback (most recent call last):
        upcl.core.errors.UserError: images/crow.jpg is missing: the copy is incomplete, unpack the archive again
    """
    digest = hashlib.sha256()
    for path in files:
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            raise UserError(f"{path} is missing: the copy is incomplete, unpack the archive again") from None
        digest.update(f"{path.relative_to(folder)} {size}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def count_notes(name: str, found: int, published: int) -> tuple[str, ...]:
    """A note for the record if a copy of a data set has more or fewer images than were published.

    Args:
        name: the name of the data set.
        found: the number of images in the copy.
        published: the number of images that were published.

    Example:
        >>> count_notes("eurosat", 26_998, 27_000)
        ('eurosat has 26,998 images, 27,000 were published: results are not comparable',)
        >>> count_notes("eurosat", 27_000, 27_000)
        ()
    """
    if found == published:
        return ()
    return (f"{name} has {found:,} images, {published:,} were published: results are not comparable",)
