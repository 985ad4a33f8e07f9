"""SLDA (Hayes and Kanan, CVPR Workshops 2020): linear discriminant analysis of frozen features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from upcl.core.closed_form import Linear, Statistics, discriminant
from upcl.core.options import NonNegative, option

from .closed_form import ClosedForm

SHRINKAGES = (1e-1, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5)


@dataclass(kw_only=True, eq=False)
class SLDA(ClosedForm):
    """Streaming linear discriminant analysis: class means, and one covariance within classes for all of them.

    References:
        T. L. Hayes and C. Kanan. Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis. CVPR
        Workshops 2020.

    Example:
        >>> SLDA(shrinkage=0.5).strengths
        (0.5,)
    """

    name = "slda"
    title = "SLDA"
    paper = "Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis (CVPR Workshops 2020)"
    summary = "frozen features, linear discriminant analysis with a shared covariance"
    deviations = (
        "unit features; the exact covariance within classes instead of a streaming estimate; the shrinkage is chosen "
        "by cross-validation instead of fixed"
    )

    shrinkage: NonNegative = option(
        0.0,
        "what is added to the variances, relative to their sum; 0: chosen by cross-validation",
        "paper: a share of 1e-4 of the identity",
    )

    @property
    def strengths(self) -> Sequence[float]:
        return (self.shrinkage,) if self.shrinkage else SHRINKAGES

    def solve(self, statistics: Statistics, strength: float) -> Linear:
        return discriminant(statistics, strength)
