"""Sets of vectors on the unit sphere: orthonormal, uniform, simplex and minimum-energy frames."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from .errors import UserError

GrowFrame = Callable[[Tensor, int], Tensor]
"""Creates new rows for a frame (k x d), given how many."""

REPULSION_STEPS, FEWEST_STEPS, MAX_REPELLED = 200, 20, 10**6  # with more pairs of rows, steps become fewer
SHARED = 8  # coordinates of a row that is not negative, after the free ones have run out
NUM_DRAWS, FEWEST_DRAWS, MANY_ROWS = 500, 10, 1000  # with more rows, draws become fewer
PART = 2048  # rows that are compared with all others at a time


def orthonormalise(candidates: Tensor, frame: Tensor) -> Tensor:
    """Turn candidates into rows that are orthonormal to a frame and to each other (Gram-Schmidt).

    In float64 and projected twice: a single float32 pass loses 5e-4 of orthogonality near k = d.

    Args:
        candidates: the vectors to start from (n x d).
        frame: orthonormal rows (k x d), with k + n <= d.

    Returns:
        The new rows (n x d), in the type of `frame`.

    Example:
        >>> orthonormalise(torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0, 0.0]])).tolist()
        [[0.0, 1.0]]
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
    """Create random rows that extend an orthonormal frame; the frame itself does not change.

    Args:
        frame: orthonormal rows (k x d).
        num_new: number of new rows.

    Returns:
        The new rows (num_new x d).

    Raises:
        UserError: If the rows do not fit in d dimensions.

    Example:
        >>> rows = extend_orthonormal(torch.empty(0, 8), 3)
        >>> torch.allclose(rows @ rows.T, torch.eye(3), atol=1e-6)
        True
    """
    dim = frame.shape[1]
    if len(frame) + num_new > dim:
        raise UserError(f"{len(frame) + num_new} orthonormal rows do not fit in {dim} dimensions")
    return orthonormalise(torch.randn(num_new, dim, dtype=torch.float64), frame)


def extend_gaussian(frame: Tensor, num_new: int) -> Tensor:
    """Create independent, uniformly distributed directions: normalised Gaussian rows (Muller, 1959).

    Args:
        frame: the present rows (k x d); only d and the type matter.
        num_new: number of new rows.

    Example:
        >>> extend_gaussian(torch.empty(0, 8), 3).shape
        torch.Size([3, 8])
    """
    return F.normalize(torch.randn(num_new, frame.shape[1], dtype=torch.float64)).to(frame.dtype)


def extend_nonnegative(frame: Tensor, num_new: int, owned: int = 2) -> Tensor:
    """Create rows that are orthonormal and nowhere negative, so that features behind a ReLU can reach each of them.

    Each row owns a few random coordinates that no other row has. When they run out, a row takes eight coordinates, the
    farthest from all other rows among many random draws: 500 with up to 1,000 rows, 20 with 5,000.

    Args:
        frame: the present rows (k x d), created by this function.
        num_new: number of new rows.
        owned: number of coordinates that a row owns.

    Returns:
        The new rows (num_new x d).

    Example:
        >>> rows = extend_nonnegative(torch.empty(0, 8), 4)
        >>> torch.allclose(rows @ rows.T, torch.eye(4), atol=1e-6), bool((rows >= 0).all())
        (True, True)
    """
    dim, unused = frame.shape[1], (frame == 0).all(0)
    rows = torch.cat([frame, frame.new_empty(num_new, dim)])
    for i in range(len(frame), len(rows)):
        free = unused.nonzero()[:, 0]
        if len(free) >= owned:
            chosen = free[torch.randperm(len(free))[None, :owned]]
        else:
            draws = max(FEWEST_DRAWS, NUM_DRAWS * MANY_ROWS**2 // max(i, MANY_ROWS) ** 2)
            chosen = torch.rand(draws, dim).topk(min(SHARED, dim)).indices
        candidates = F.normalize(torch.zeros(len(chosen), dim, dtype=frame.dtype).scatter_(1, chosen, 1.0))
        nearest = (candidates @ rows[:i].T).amax(1) if i else torch.zeros(1)
        rows[i] = candidates[nearest.argmin()]
        unused &= rows[i] == 0
    return rows[len(frame) :]


def extend_uniform(frame: Tensor, num_new: int) -> Tensor:
    """Create rows as far from all others as possible without moving the old ones, for any number of classes.

    Up to d rows: orthonormal (the paper). Up to 2d: the opposites of the first d, whose largest cosine is still 0, the
    least that more than d + 1 vectors can have (Rankin, 1955). Beyond: repulsion, with the old rows fixed.

    Args:
        frame: the present rows (k x d), created by this function.
        num_new: number of new rows.

    Returns:
        The new rows (num_new x d).

    Example:
        >>> rows = extend_uniform(torch.empty(0, 4), 8)
        >>> round(largest_cosine(rows), 4)
        0.0
    """
    dim, rows = frame.shape[1], frame
    orthonormal = min(num_new, max(dim - len(frame), 0))
    rows = torch.cat([rows, extend_orthonormal(rows[:dim], orthonormal)]) if orthonormal else rows
    opposite = min(len(frame) + num_new, 2 * dim) - len(rows)
    rows = torch.cat([rows, -rows[len(rows) - dim :][:opposite]]) if opposite > 0 else rows
    left = len(frame) + num_new - len(rows)
    rows = torch.cat([rows, repel(rows, left)]) if left else rows
    return rows[len(frame) :]


def repel(frame: Tensor, num_new: int) -> Tensor:
    """Create rows with a small largest cosine to each other and to a fixed frame.

    Descends on mean_i log sum_j exp(beta w_i . w_j) along the sphere while beta rises from 4 to 200, so that only the
    largest cosine counts in the end. The best rows on the way are returned. Beyond a million pairs, there are fewer
    steps, in float32: with a tenth of the steps, the largest cosine of 1,500 rows in 64 dimensions is 0.23, not 0.19.

    Args:
        frame: the fixed rows (k x d).
        num_new: number of new rows.

    Returns:
        The new rows (num_new x d).

    Example:
        >>> _ = torch.manual_seed(0)
        >>> largest_cosine(repel(torch.empty(0, 2), 3)) < -0.49  # the optimum is -0.5
        True
    """
    num_pairs = num_new * (len(frame) + num_new)
    is_large = num_pairs > MAX_REPELLED
    steps = max(FEWEST_STEPS, REPULSION_STEPS * MAX_REPELLED // num_pairs) if is_large else REPULSION_STEPS
    fixed = frame.to(torch.float32 if is_large else torch.float64)
    rows = F.normalize(torch.randn(num_new, frame.shape[1], dtype=torch.float64)).to(fixed.dtype)
    best, smallest = rows, torch.inf
    for step in range(steps):
        progress = step / steps
        largest, gradient = _repulsion(fixed, rows, 4 * 50**progress)
        if largest < smallest:
            best, smallest = rows, largest
        tangent = gradient - (gradient * rows).sum(1, keepdim=True) * rows
        rows = F.normalize(rows - (0.5 * (1 - progress) + 0.002) * tangent)
    return best.to(frame.dtype)


def _repulsion(fixed: Tensor, rows: Tensor, beta: float) -> tuple[float, Tensor]:
    """The largest cosine of rows to each other and to the fixed ones, and the gradient that pushes them together."""
    everything, gradient, largest = torch.cat([fixed, rows]), torch.zeros_like(rows), -torch.inf
    for start in range(0, len(rows), PART):
        part = rows[start : start + PART]
        cosines = part @ everything.T
        cosines.diagonal(len(fixed) + start).fill_(-torch.inf)
        largest = max(largest, float(cosines.max()))
        push = cosines.mul_(beta).softmax(1)
        gradient[start : start + PART] += push @ everything
        gradient += push[:, len(fixed) :].T @ part
    return largest, gradient


def simplex(num: int, dim: int) -> Tensor:
    """Create a random simplex equiangular tight frame: every pair of rows has the cosine -1/(num - 1).

    Args:
        num: number of rows.
        dim: number of dimensions, at least num - 1.

    Returns:
        Unit rows (num x dim).

    Raises:
        UserError: If the simplex does not fit in `dim` dimensions.

    Example:
        >>> corners = simplex(3, 5)
        >>> torch.allclose(corners @ corners.T, 1.5 * torch.eye(3) - 0.5, atol=1e-5)
        True
    """
    if num > dim + 1:
        raise UserError(f"a simplex of {num} classes does not fit in {dim} feature dimensions: use a larger backbone")
    space = max(num, dim)
    basis = orthonormalise(torch.randn(num, space, dtype=torch.float64), torch.empty(0, space, dtype=torch.float64))
    corners = simplex_in(basis)
    if space > dim:  # the corners lie in a hyperplane through the origin: rotate it into the first dim axes
        corners = corners @ torch.linalg.svd(corners).Vh[:dim].T
    return corners.float()


def simplex_in(basis: Tensor) -> Tensor:
    """Create the simplex that the rows of an orthonormal basis span: sqrt(K/(K-1)) (I - 1/K) Q.

    Args:
        basis: orthonormal rows Q (K x d).

    Returns:
        Unit rows (K x d).

    Example:
        >>> [round(value, 4) for value in simplex_in(torch.eye(3))[0].tolist()]
        [0.8165, -0.4082, -0.4082]
    """
    num = len(basis)
    if num == 1:
        return basis
    centring = torch.eye(num, dtype=basis.dtype) - 1 / num
    corners: Tensor = (num / (num - 1)) ** 0.5 * centring @ basis
    return corners


def minimum_energy(num: int, dim: int, *, power: float = 2.0, steps: int = 200, averaged: bool = False) -> Tensor:
    """Minimise the hyperspherical energy sum_{i<j} |w_i - w_j|^-power of random rows by descent with momentum.

    Args:
        num: number of rows.
        dim: number of dimensions.
        power: the exponent; 0 stands for -log |w_i - w_j|.
        steps: number of steps.
        averaged: descend as for the paper's figure of uniformity, at rate 50 on the energy averaged over pairs. The
            gradient of each row then falls with 1/num, and many rows do not converge. Otherwise, rows stay on the
            sphere and steps shrink.

    Returns:
        Unit rows (num x dim).

    Example:
        >>> _ = torch.manual_seed(0)
        >>> round(largest_cosine(minimum_energy(3, 2)), 2)  # an equilateral triangle
        -0.5
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
    """Compute the hyperspherical energy of unit rows, averaged over pairs.

    Args:
        frame: unit rows (k x d).
        power: the exponent; 0 stands for -log |w_i - w_j|.

    Example:
        >>> round(energy(torch.eye(2)), 4)
        0.5
    """
    upper = torch.triu_indices(len(frame), len(frame), 1)
    squared = 2 - 2 * (frame @ frame.T)[upper[0], upper[1]]
    return float((squared ** (-power / 2) if power else -squared.log() / 2).mean())


def largest_cosine(frame: Tensor) -> float:
    """Compute the largest cosine of all pairs of rows: 1 minus the figure of uniformity's "minimum cosine distance".

    Args:
        frame: unit rows (k x d).

    Example:
        >>> largest_cosine(torch.eye(3))
        0.0
    """
    rows, largest = frame.double(), -torch.inf
    for start in range(0, len(rows), PART):
        cosines = rows[start : start + PART] @ rows.T
        cosines.diagonal(start).fill_(-torch.inf)
        largest = max(largest, float(cosines.max()))
    return largest


def welch_bound(num: int, dim: int) -> float:
    """Compute the Welch bound: no set of unit vectors has a smaller largest |cosine| (0 as long as they fit).

    Args:
        num: number of vectors.
        dim: number of dimensions.

    Example:
        >>> welch_bound(3, 2)
        0.5
    """
    return ((num - dim) / (dim * (num - 1))) ** 0.5 if num > dim else 0.0
