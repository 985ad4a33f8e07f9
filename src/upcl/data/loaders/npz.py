"""An npz file with your own arrays as a data set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.types import Samples
from upcl.data.dataset import Dataset
from upcl.data.defaults import DEFAULT_MEMORY, default_normalisation
from upcl.data.io.archives import read_npz
from upcl.data.io.paths import expand_home
from upcl.data.transforms import PadCrop, Transform

MAX_SIDE = 1024  # pixels: batches of larger images would fill the memory
KEYS = ("train_x", "train_y", "test_x", "test_y")


def load_npz(path: str | Path) -> Dataset:
    """Load a data set from a file written by `numpy.savez`.

    Args:
        path: a file with the arrays `train_x`, `train_y`, `test_x`, `test_y`: uint8 images (N x H x W or N x H x W x C)
            and integer labels; optionally `classes`, the class names.

    Raises:
        UserError: the file cannot be read, or its arrays have the wrong type or shape.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.npz"
        >>> images, labels = np.zeros((4, 8, 8), np.uint8), np.array([0, 1, 0, 1])
        >>> np.savez(path, train_x=images, train_y=labels, test_x=images, test_y=labels, classes=["cat", "dog"])
        >>> load_npz(path).classes
        ('cat', 'dog')
    """
    path = expand_home(path)
    arrays = _read(path)
    if missing := [key for key in KEYS if key not in arrays]:
        raise UserError(f"{path} lacks the arrays {', '.join(missing)}; found {', '.join(arrays) or 'none of them'}")
    train, test = (_samples(path, split, arrays[f"{split}_x"], arrays[f"{split}_y"]) for split in ("train", "test"))
    names = _class_names(path, train.labels, arrays.get("classes"))
    mean, std = default_normalisation(train.inputs)
    return Dataset(
        name=f"npz:{path.name}",
        train=train,
        test=test,
        classes=names,
        transform=Transform(mean, std, (PadCrop(max(1, train.inputs.shape[-1] // 8)),)),
        backbone="small",
        recipe="quick",
        memory=DEFAULT_MEMORY,
        tasks=min(5, len(names)),
    )


def _read(path: Path) -> Mapping[str, np.ndarray]:
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    with path.open("rb") as file:
        if file.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX:
            raise UserError(f"{path} contains a single array; save {', '.join(KEYS)} with numpy.savez")
    return read_npz(path, (*KEYS, "classes"))


def _class_names(path: Path, labels: Tensor, names: np.ndarray | None) -> tuple[str, ...]:
    """The names in the file, else the labels as text; there cannot be more classes than images."""
    if names is not None:
        texts = tuple(map(str, np.atleast_1d(names)))
        try:
            "".join(texts).encode()
        except ValueError as error:
            raise UserError(f"{path}: classes must be text: {error}") from None
        return texts
    if int(labels.max()) >= len(labels):
        raise UserError(
            f"{path}: train_y must have the labels 0, 1, 2, ... of classes, but it contains {int(labels.max())} "
            f"and has only {len(labels)} images"
        )
    return tuple(map(str, range(int(labels.max()) + 1)))


def _samples(path: Path, split: str, images: np.ndarray, labels: np.ndarray) -> Samples:
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise UserError(
            f"{path}: {split}_x must be uint8, N x H x W or N x H x W x C, not {images.dtype} {images.shape}"
        )
    images = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    if images.shape[1] not in (1, 3):
        raise UserError(f"{path}: {split}_x must have 1 or 3 channels in its last dimension, not {images.shape[1]}")
    if not np.issubdtype(labels.dtype, np.integer) or labels.shape != images.shape[:1]:
        raise UserError(
            f"{path}: {split}_y must have {len(images)} integers, one per image, not {labels.dtype} {labels.shape}"
        )
    if not images.size:
        raise UserError(f"{path}: {split}_x is empty")
    if max(images.shape[2:]) > MAX_SIDE:
        raise UserError(f"{path}: images of {split}_x have more than {MAX_SIDE:,} pixels per side: scale them down")
    return Samples(torch.from_numpy(np.ascontiguousarray(images)), torch.from_numpy(labels.astype(np.int64)))
