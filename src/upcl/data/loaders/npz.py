"""An npz file of one's own arrays as a data set."""

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


def load_npz(text: str) -> Dataset:
    """An npz with train_x, train_y, test_x, test_y (images N x H x W or N x H x W x C, uint8) and perhaps classes."""
    path = Path(text).expanduser()
    arrays = _read(path)
    if missing := [key for key in KEYS if key not in arrays]:
        raise UserError(f"{path} lacks {', '.join(missing)}; it holds {', '.join(arrays)}")
    train, test = (_samples(path, part, arrays[f"{part}_x"], arrays[f"{part}_y"]) for part in ("train", "test"))
    num = int(train.labels.max()) + 1
    names = (
        [str(name) for name in np.atleast_1d(arrays["classes"])] if "classes" in arrays else list(map(str, range(num)))
    )
    mean, std = default_normalisation(train.inputs)
    return Dataset(
        name=f"npz:{path.name}",
        train=train,
        test=test,
        classes=tuple(names),
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
            raise UserError(f"{path} holds one array; an npz holds {', '.join(KEYS)} (numpy.savez)")
        with content:
            return {key: content[key] for key in content.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"{path} cannot be read as npz: {error}") from None


def _samples(path: Path, part: str, images: np.ndarray, labels: np.ndarray) -> Samples:
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise UserError(f"{path}: images must be uint8, N x H x W or N x H x W x C, not {images.dtype} {images.shape}")
    images = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    if images.shape[1] not in (1, 3):
        raise UserError(f"{path}: {part}_x has {images.shape[1]} channels last; images are N x H x W x 1 or x 3")
    if not np.issubdtype(labels.dtype, np.integer) or labels.shape != images.shape[:1]:
        raise UserError(
            f"{path}: {part}_y must be {len(images)} whole numbers, one an image, not {labels.dtype} {labels.shape}"
        )
    if not len(images):
        raise UserError(f"{path}: {part}_x holds no images")
    return Samples(torch.from_numpy(np.ascontiguousarray(images)), torch.from_numpy(labels.astype(np.int64)))
