"""Classifiers in closed form: sufficient statistics of features, and the linear classifiers that follow from them.

Statistics are sums over images. They can be added and subtracted, so the order in which images arrive does not matter,
and what was added can be taken out again.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 4096  # rows in double precision at a time
Linear = tuple[Tensor, Tensor]
"""Weight (C x d) and bias (C) of a linear classifier."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums over the features of images, in double precision.

    Args:
        gram: sum of f f' over all images (d x d).
        sums: sum of f over the images of each class (C x d).
        counts: number of images of each class (C).

    Example:
        >>> features, labels = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 1])
        >>> statistics = Statistics.of(features, labels, num_classes=2)
        >>> statistics.gram.tolist(), statistics.counts.tolist()
        ([[1.0, 0.0], [0.0, 4.0]], [1.0, 1.0])
        >>> (statistics - Statistics.of(features[:1], labels[:1], num_classes=2)).counts.tolist()
        [0.0, 1.0]
    """

    gram: Tensor
    sums: Tensor
    counts: Tensor

    @staticmethod
    def of(
        features: Tensor, labels: Tensor, num_classes: int, gram: Tensor | None = None, *, unit: bool = False
    ) -> Statistics:
        """Compute the statistics of some images, a few at a time: memory does not grow with their number.

        Args:
            features: one row per image (N x d).
            labels: the class of each image (N).
            num_classes: number of classes C.
            gram: their Gram matrix, if it is known: it takes most of the time.
            unit: scale the features to unit length first.
        """
        dim, device = features.shape[1], features.device
        total = torch.zeros(dim, dim, dtype=torch.float64, device=device) if gram is None else gram
        for rows in features.split(CHUNK) if gram is None else ():
            exact = _exact(rows, unit=unit)
            total.addmm_(exact.T, exact)
        sums = class_sums(features, labels, num_classes, unit=unit)
        return Statistics(total, sums, torch.bincount(labels, minlength=num_classes).double())

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(self.gram + other.gram, self.sums + other.sums, self.counts + other.counts)

    def __sub__(self, other: Statistics) -> Statistics:
        return Statistics(self.gram - other.gram, self.sums - other.sums, self.counts - other.counts)

    @property
    def means(self) -> Tensor:
        """Mean feature of each class (C x d); zero for a class without images."""
        return self.sums / self.counts.clamp(min=1)[:, None]


def class_sums(features: Tensor, labels: Tensor, num_classes: int, *, unit: bool = False) -> Tensor:
    """The sum of the features of each class, in double precision.

    Args:
        features: one row per image (N x d).
        labels: the class of each image (N).
        num_classes: number of classes C.
        unit: scale the features to unit length first.

    Example:
        >>> class_sums(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([0, 1, 1]), num_classes=3).tolist()
        [[1.0], [6.0], [0.0]]
    """
    sums = torch.zeros(num_classes, features.shape[1], dtype=torch.float64, device=features.device)
    for rows, classes in zip(features.split(CHUNK), labels.split(CHUNK), strict=True):
        sums.index_add_(0, classes, _exact(rows, unit=unit))
    return sums


def _exact(rows: Tensor, *, unit: bool) -> Tensor:
    """Features in double precision; lengths are computed in single precision, as for predictions."""
    return F.normalize(rows.float()).double() if unit else rows.double()


def class_ranks(labels: Tensor) -> Tensor:
    """The position of each image among those of its class.

    Args:
        labels: the class of each image (N).

    Example:
        >>> class_ranks(torch.tensor([5, 2, 5, 5, 2])).tolist()
        [0, 0, 1, 2, 1]
    """
    order = labels.argsort(stable=True)
    counts = torch.bincount(labels)
    starts = counts.cumsum(0) - counts
    ranks = torch.empty_like(labels)
    ranks[order] = torch.arange(len(labels), device=labels.device) - starts[labels[order]]
    return ranks


def nearest_mean(statistics: Statistics) -> Linear:
    """Score by the cosine to the mean feature of each class.

    Args:
        statistics: of unit features.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> weight, bias = nearest_mean(Statistics.of(features, torch.tensor([0, 1]), num_classes=2))
        >>> weight.tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    means = F.normalize(statistics.means)
    return means, torch.zeros_like(statistics.counts)


def discriminant(statistics: Statistics, strength: float) -> Linear:
    """Linear discriminant analysis with equal priors: the covariance within classes is shared and shrunk.

    `w_c = S^-1 mu_c` and `b_c = -mu_c' S^-1 mu_c / 2` with `S = W + s tr(W) I`, where W is the covariance within
    classes.

    Args:
        statistics: of features.
        strength: the shrinkage s, relative to the total variance within classes.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
        >>> weight, bias = discriminant(Statistics.of(features, torch.tensor([0, 0, 1, 1]), 2), strength=0.5)
        >>> (features.double() @ weight.T + bias).argmax(1).tolist()
        [0, 0, 1, 1]
    """
    means = statistics.means
    within = (statistics.gram - means.T @ statistics.sums) / statistics.counts.sum().clamp(min=1)
    weight = _solve_regularised(within, strength, means.T).T
    return weight, -(weight * means).sum(1) / 2


def ridge(statistics: Statistics, strength: float) -> Linear:
    """Ridge regression of one-hot targets on features, with an intercept that is not penalised.

    `W = (G + s tr(G) I)^-1 C`, where G is the Gram matrix of centred features and C their products with the targets.

    Args:
        statistics: of features.
        strength: the penalty s, relative to the total variance of the features.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
        >>> weight, bias = ridge(Statistics.of(features, torch.tensor([0, 0, 1, 1]), 2), strength=0.1)
        >>> (features.double() @ weight.T + bias).argmax(1).tolist()
        [0, 0, 1, 1]
    """
    num = statistics.counts.sum().clamp(min=1)
    mean, share = statistics.sums.sum(0) / num, statistics.counts / num
    centred = statistics.gram - num * torch.outer(mean, mean)
    products = statistics.sums - statistics.counts[:, None] * mean
    weight = _solve_regularised(centred, strength, products.T).T
    return weight, share - weight @ mean


def row_space(features: Tensor) -> Tensor:
    """Coordinates of features in the space that they span, for faster computation if they are few.

    Classifiers of this module do not depend on the coordinate system, so predictions from these coordinates are the
    same.

    Args:
        features: one row per image (N x d).

    Returns:
        The coordinates (N x min(N, d)), in double precision.

    Example:
        >>> features = torch.rand(3, 100)
        >>> coordinates = row_space(features)
        >>> coordinates.shape, torch.allclose(coordinates @ coordinates.T, (features @ features.T).double())
        (torch.Size([3, 3]), True)
    """
    exact = features.double()
    if len(exact) >= exact.shape[1]:
        return exact
    triangle: Tensor = torch.linalg.qr(exact.T, mode="r").R
    return triangle.T


def _solve_regularised(matrix: Tensor, strength: float, right: Tensor) -> Tensor:
    """Solve (matrix + strength * trace I) x = right, for a symmetric matrix without negative eigenvalues."""
    total = matrix.trace().clamp(min=1e-3)  # of unit features; less is rounding
    regularised = matrix.clone()
    regularised.diagonal().add_(strength * total)
    solution: Tensor = torch.cholesky_solve(right, torch.linalg.cholesky(regularised))
    return solution
