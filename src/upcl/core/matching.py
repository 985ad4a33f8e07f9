"""Matching between two sets: optimal transport and assignment."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from .errors import TrainingError


def sinkhorn(cost: Tensor, regularisation: float, iterations: int = 500) -> Tensor:
    """Solve entropic optimal transport between uniform marginals, in the log domain (Cuturi, NeurIPS 2013).

    Args:
        cost: cost of each pair (n x m).
        regularisation: weight of the entropy.
        iterations: number of Sinkhorn iterations.

    Returns:
        The transport plan (n x m); its entries sum to 1.

    Example:
        >>> plan = sinkhorn(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), 0.1)
        >>> [[round(value, 3) for value in row] for row in plan.tolist()]
        [[0.5, 0.0], [0.0, 0.5]]
    """
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
    """Try to prove cheaply that an assignment maximises the summed similarity.

    The row maxima, and the column maxima, each sum to an upper bound of every assignment.

    Args:
        similarity: similarity of each pair (n x n).
        assignment: the column that each row is assigned to (n).

    Returns:
        A boolean scalar; False means "not proven", not "not optimal".

    Example:
        >>> bool(is_optimal_assignment(torch.eye(2), torch.tensor([0, 1])))
        True
    """
    chosen = similarity.gather(1, assignment[:, None])[:, 0]
    by_row = (chosen >= similarity.amax(1)).all()
    by_column = (chosen >= similarity.amax(0)[assignment]).all()
    return by_row | by_column


def optimal_assignment(similarity: Tensor) -> Tensor:
    """Find the permutation s that maximises sum_k similarity[k, s_k] (Hungarian algorithm).

    Args:
        similarity: similarity of each pair (n x n).

    Returns:
        The column that each row is assigned to (n).

    Raises:
        TrainingError: If a similarity is not finite.

    Example:
        >>> optimal_assignment(torch.tensor([[0.85, 0.5], [0.4, 0.0]])).tolist()
        [1, 0]
    """
    try:
        columns = linear_sum_assignment(similarity.cpu().numpy(), maximize=True)[1]
    except ValueError as error:
        raise TrainingError("features are not finite, so classes cannot be matched: lower the learning rate") from error
    return torch.from_numpy(columns.astype(np.int64)).to(similarity.device)
