"""Clusters of points, found in the same way whatever the number of threads."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def k_means(points: Tensor, num: int, rounds: int = 100) -> Tensor:
    """Find the centres of clusters: Lloyd's algorithm, started by k-means++ (Arthur and Vassilvitskii, SODA 2007).

    scikit-learn adds up clusters in the order in which threads finish, so that its centres differ in the last bits.

    Args:
        points: the points (n x d), at least one.
        num: number of centres; if there are fewer different points, some centres are equal.
        rounds: largest number of rounds; it ends earlier when no centre moves.

    Returns:
        The centres (num x d).

    Example:
        >>> points = torch.tensor([[0.0, 0.0], [0.0, 1.0], [9.0, 0.0], [9.0, 1.0]])
        >>> sorted(k_means(points, 2).tolist())
        [[0.0, 0.5], [9.0, 0.5]]
    """
    rows = points.double().cpu()
    centres = rows[torch.randint(len(rows), (1,))]
    while len(centres) < num:
        squares = _distances(rows, centres).amin(1).square()
        shares = squares if squares.any() else torch.ones_like(squares)
        centres = torch.cat([centres, rows[torch.multinomial(shares, 1)]])
    for _ in range(rounds):
        member = F.one_hot(_distances(rows, centres).argmin(1), num).to(rows.dtype)
        sizes = member.sum(0)[:, None]
        moved = torch.where(sizes > 0, member.T @ rows / sizes.clamp(min=1), centres)
        if torch.equal(moved, centres):
            break
        centres = moved
    return centres.to(points)


def _distances(rows: Tensor, centres: Tensor) -> Tensor:
    """Distances that are exactly zero between equal points."""
    return torch.cdist(rows, centres, compute_mode="donot_use_mm_for_euclid_dist")
