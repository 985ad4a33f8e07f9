"""Sets of vectors on the unit sphere, and matching: pure functions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
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
        raise UserError(f"{len(frame) + num_new} orthonormal rows do not fit in {dim} dimensions")
    return orthonormalise(torch.randn(num_new, dim, dtype=torch.float64), frame)


def extend_gaussian(frame: Tensor, num_new: int) -> Tensor:
    """Independent uniform directions (Muller): Gaussian rows, normalised."""
    return F.normalize(torch.randn(num_new, frame.shape[1], dtype=torch.float64)).to(frame.dtype)


def extend_uniform(frame: Tensor, num_new: int) -> Tensor:
    """Rows as far from all others as can be had without moving the old ones, for any number of classes.

    Up to d rows: orthonormal (the paper). Up to 2d: the opposites of the first d, whose largest cosine is still 0, the
    least that more than d + 1 vectors can have (Rankin). Beyond: repulsion, with the old rows fixed.
    """
    dim, rows = frame.shape[1], frame
    orthonormal = min(num_new, max(dim - len(frame), 0))
    rows = torch.cat([rows, extend_orthonormal(rows[:dim], orthonormal)]) if orthonormal else rows
    opposite = min(len(frame) + num_new, 2 * dim) - len(rows)
    rows = torch.cat([rows, -rows[len(rows) - dim :][:opposite]]) if opposite > 0 else rows
    left = len(frame) + num_new - len(rows)
    rows = torch.cat([rows, repel(rows, left)]) if left else rows
    return rows[len(frame) :]


GrowFrame = Callable[[Tensor, int], Tensor]


"""Makes new rows for a frame (k x d), given how many."""


REPULSION_STEPS = 200


def repel(frame: Tensor, num_new: int) -> Tensor:
    """New rows whose largest cosine to each other and to the fixed frame is small.

    Descends on mean_i log sum_j exp(beta w_i . w_j) along the sphere while beta rises from 4 to 200, so that it ends at
    the largest cosine alone; the best rows on the way are kept.
    """
    fixed = frame.double()
    rows = F.normalize(torch.randn(num_new, frame.shape[1], dtype=torch.float64))
    itself = torch.arange(num_new)
    best, smallest = rows, torch.inf
    for step in range(REPULSION_STEPS):
        progress = step / REPULSION_STEPS
        everything = torch.cat([fixed, rows])
        cosines = rows @ everything.T
        cosines[itself, itself + len(fixed)] = -torch.inf
        largest = float(cosines.max())
        if largest < smallest:
            best, smallest = rows, largest
        push = (4 * 50**progress * cosines).softmax(1)
        gradient = push @ everything + push[:, len(fixed) :].T @ rows
        tangent = gradient - (gradient * rows).sum(1, keepdim=True) * rows
        rows = F.normalize(rows - (0.5 * (1 - progress) + 0.002) * tangent)
    return best.to(frame.dtype)


def simplex(num: int, dim: int) -> Tensor:
    """Simplex equiangular tight frame (num x dim): every pair has cosine -1/(num - 1)."""
    if num > dim + 1:
        raise UserError(f"a simplex of {num} classes does not fit in {dim} feature dimensions: use a larger backbone")
    space = max(num, dim)
    basis = orthonormalise(torch.randn(num, space, dtype=torch.float64), torch.empty(0, space, dtype=torch.float64))
    corners = simplex_in(basis)
    if space > dim:  # the corners lie in a plane through the origin: turn it into the first dim axes
        corners = corners @ torch.linalg.svd(corners).Vh[:dim].T
    return corners.float()


def simplex_in(basis: Tensor) -> Tensor:
    """The simplex spanned by the rows of an orthonormal basis (K x d)."""
    num = len(basis)
    if num == 1:
        return basis
    centring = torch.eye(num, dtype=basis.dtype) - 1 / num
    corners: Tensor = (num / (num - 1)) ** 0.5 * centring @ basis
    return corners


def minimum_energy(num: int, dim: int, *, power: float = 2.0, steps: int = 200, averaged: bool = False) -> Tensor:
    """Rows of least hyperspherical energy sum_{i<j} |w_i - w_j|^-power (power 0: -log), by descent with momentum.

    `averaged` is the uniformity figure's descent: rate 50 on the energy averaged over pairs, so that each row's
    gradient falls with 1/num and many rows do not converge. Otherwise rows stay on the sphere and steps shrink.
    """
    rows, velocity = F.normalize(torch.randn(num, dim)), torch.zeros(num, dim)
    for step in range(steps if num > 1 else 0):
        unit = F.normalize(rows)
        squared = (2 - 2 * unit @ unit.T).clamp(min=1e-6).fill_diagonal_(torch.inf)
        strength = squared ** (-power / 2 - 1) * (power if power else 1.0)
        pull = strength @ unit - strength.sum(1, keepdim=True) * unit
        tangent = pull - (pull * unit).sum(1, keepdim=True) * unit
        if averaged:
            velocity = 0.9 * velocity + tangent / rows.norm(dim=1, keepdim=True)
            rows = rows - 50 / (num * (num - 1) / 2) * velocity
        else:
            velocity = 0.9 * velocity + tangent / num
            size = velocity.norm(dim=1, keepdim=True).clamp(min=1e-12)
            rows = F.normalize(unit - velocity / size * size.clamp(max=0.3) * (1 - step / steps))
    return F.normalize(rows)


def energy(frame: Tensor, power: float = 2.0) -> float:
    """Hyperspherical energy averaged over pairs."""
    upper = torch.triu_indices(len(frame), len(frame), 1)
    squared = 2 - 2 * (frame @ frame.T)[upper[0], upper[1]]
    return float((squared ** (-power / 2) if power else -squared.log() / 2).mean())


def largest_cosine(frame: Tensor) -> float:
    """Of all pairs of rows: 1 minus the "minimum cosine distance" of the uniformity figure."""
    cosines = frame.double() @ frame.double().T
    return float(cosines.fill_diagonal_(-torch.inf).max())


def welch_bound(num: int, dim: int) -> float:
    """No set of `num` unit vectors has a smaller largest |cosine| than this (0 while they fit)."""
    return ((num - dim) / (dim * (num - 1))) ** 0.5 if num > dim else 0.0


def sinkhorn(cost: Tensor, regularisation: float, iterations: int = 500) -> Tensor:
    """Entropic optimal transport between uniform marginals, in the log domain: the plan (n x m), mass 1."""
    num, other = cost.shape
    kernel = -cost.cpu().double() / regularisation  # float64 on the CPU: not every accelerator has it
    log_row = torch.full((num, 1), -math.log(num), dtype=torch.float64)
    log_column = torch.full((1, other), -math.log(other), dtype=torch.float64)
    left = torch.zeros_like(log_row)
    right = torch.zeros_like(log_column)
    for _ in range(iterations):
        right = log_column - (kernel + left).logsumexp(0, keepdim=True)
        left = log_row - (kernel + right).logsumexp(1, keepdim=True)
    return (kernel + left + right).exp().to(cost)


def is_optimal_assignment(similarity: Tensor, assignment: Tensor) -> Tensor:
    """A cheap proof that `assignment` maximises the summed similarity; False means "not proven".

    The row maxima, and the column maxima, each sum to an upper bound of every assignment.
    """
    chosen = similarity.gather(1, assignment[:, None])[:, 0]
    by_row = (chosen >= similarity.amax(1)).all()
    by_column = (chosen >= similarity.amax(0)[assignment]).all()
    return by_row | by_column


def optimal_assignment(similarity: Tensor) -> Tensor:
    """The permutation s that maximises sum_k similarity[k, s_k] (Hungarian algorithm)."""
    try:
        columns = linear_sum_assignment(similarity.cpu().numpy(), maximize=True)[1]
    except ValueError as error:
        raise TrainingError("features are not finite, so classes cannot be matched: lower the learning rate") from error
    return torch.from_numpy(columns.astype(np.int64)).to(similarity.device)
