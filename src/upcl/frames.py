"""Sets of vectors on the unit sphere, and matching: pure functions."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from .errors import TrainingError, UserError


def orthonormalise(candidates: Tensor, frame: Tensor) -> Tensor:
    """Gram-Schmidt: turn `candidates` (n x d) into rows orthonormal to `frame` (k x d) and to each other.

    In float64 and projected twice: one float32 pass loses 5e-4 of orthogonality near k = d.
    """
    rows = torch.empty(len(frame) + len(candidates), frame.shape[1], dtype=torch.float64)
    rows[: len(frame)] = frame
    for i, candidate in enumerate(candidates.double(), start=len(frame)):
        row = candidate / candidate.norm()
        for _ in range(2):
            row = row - rows[:i].T @ (rows[:i] @ row)
            row = row / row.norm()
        rows[i] = row
    return rows[len(frame) :].to(frame.dtype)


def extend_orthonormal(frame: Tensor, num_new: int) -> Tensor:
    """`num_new` random rows that extend an orthonormal frame (k x d). The rows of the frame are not touched."""
    dim = frame.shape[1]
    if len(frame) + num_new > dim:
        raise UserError(
            f"{len(frame) + num_new} orthonormal prototypes do not fit in {dim} feature dimensions: "
            f"use a backbone with more features, or a projector (--set projector={len(frame) + num_new})"
        )
    return orthonormalise(torch.randn(num_new, dim, dtype=torch.float64), frame)


def is_best_assignment(similarity: Tensor, assignment: Tensor) -> Tensor:
    """A cheap proof that `assignment` maximises the summed similarity; False means "not proven".

    The row maxima, and the column maxima, each sum to an upper bound of every assignment.
    """
    chosen = similarity.gather(1, assignment[:, None])[:, 0]
    by_row = (chosen >= similarity.amax(1)).all()
    by_column = (chosen >= similarity.amax(0)[assignment]).all()
    return by_row | by_column


def best_assignment(similarity: Tensor) -> Tensor:
    """The permutation s that maximises sum_k similarity[k, s_k] (Hungarian algorithm)."""
    try:
        columns = linear_sum_assignment(similarity.cpu().numpy(), maximize=True)[1]
    except ValueError as error:
        raise TrainingError("features are not finite, so classes cannot be matched: lower the learning rate") from error
    return torch.from_numpy(columns.astype(np.int64)).to(similarity.device)
