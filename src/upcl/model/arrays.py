"""Arrays as images: from numbers of any type and range to the uint8 images that a model takes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .bundle import Arrays


def array_range(X: np.ndarray) -> tuple[float, float]:  # noqa: N803
    """Return the values that become black and white: 0 and 255 for uint8, otherwise the smallest and the largest.

    Args:
        X: an array of numbers.

    Example:
        >>> array_range(np.array([0.5, 16.0])), array_range(np.array([3], np.uint8))
        ((0.5, 16.0), (0.0, 255.0))
    """
    return (0.0, 255.0) if X.dtype == np.uint8 else (float(np.min(X)), float(np.max(X)))


def images_from_array(X: np.ndarray, arrays: Arrays) -> Tensor:  # noqa: N803
    """Convert an array to uint8 images (N x C x size x size).

    Args:
        X: square images (N x size x size, or N x size x size x 3), or rows of numbers (N x features), which are laid
            out as grey squares and padded.
        arrays: the range of values; values outside it are clipped.

    Raises:
        ValueError: if the images are not square, or have neither one nor three channels.

    Example:
        >>> images_from_array(np.array([[0.0, 1.0, 2.0]]), Arrays(low=0.0, high=2.0, labels="i")).tolist()
        [[[[0, 128], [255, 0]]]]
    """
    if X.ndim == 2:
        X = _rows_to_squares(X, arrays.low)  # noqa: N806
    if X.ndim not in (3, 4) or X.shape[1] != X.shape[2] or X.shape[3:] not in ((), (1,), (3,)):
        raise ValueError(f"X must hold square images, N x size x size or N x size x size x 3; got {X.shape}")
    scaled = np.clip((X - arrays.low) / max(arrays.high - arrays.low, 1e-12), 0, 1) * 255
    pixels = torch.from_numpy(np.ascontiguousarray(np.rint(scaled).astype(np.uint8)))
    return pixels[:, None] if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2).contiguous()


def _rows_to_squares(X: np.ndarray, fill: Any) -> np.ndarray:  # noqa: N803
    side = math.ceil(math.sqrt(X.shape[1]))
    padded = np.pad(X, ((0, 0), (0, side * side - X.shape[1])), constant_values=fill)
    return padded.reshape(len(X), side, side)
