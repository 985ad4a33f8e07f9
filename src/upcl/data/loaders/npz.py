"""An npz file with your own arrays as a data set."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from upcl.core.errors import UserError
from upcl.core.types import Samples
from upcl.data.dataset import Dataset
from upcl.data.defaults import DEFAULT_MEMORY, default_normalisation
from upcl.data.transforms import PadCrop, Transform

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
    path = Path(path).expanduser()
    arrays = _read(path)
    if missing := [key for key in KEYS if key not in arrays]:
        raise UserError(f"{path} lacks the arrays {', '.join(missing)}; found {', '.join(arrays)}")
    train, test = (_samples(path, split, arrays[f"{split}_x"], arrays[f"{split}_y"]) for split in ("train", "test"))
    names = np.atleast_1d(arrays["classes"]) if "classes" in arrays else range(int(train.labels.max()) + 1)
    mean, std = default_normalisation(train.inputs)
    return Dataset(
        name=f"npz:{path.name}",
        train=train,
        test=test,
        classes=tuple(map(str, names)),
        transform=Transform(mean, std, (PadCrop(max(1, train.inputs.shape[-1] // 8)),)),
        backbone="small",
        recipe="quick",
        memory=DEFAULT_MEMORY,
        tasks=min(5, len(names)),
    )


def _read(path: Path) -> Mapping[str, np.ndarray]:
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    try:
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            raise UserError(f"{path} contains a single array; save {', '.join(KEYS)} with numpy.savez")
        with content:
            return {key: content[key] for key in content.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"{path} cannot be read as npz: {error}") from None


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
    if not len(images):
        raise UserError(f"{path}: {split}_x is empty")
    return Samples(torch.from_numpy(np.ascontiguousarray(images)), torch.from_numpy(labels.astype(np.int64)))
