"""SLDA (Hayes and Kanan, CVPR Workshops 2020): linear discriminant analysis of frozen features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from upcl.core.closed_form import Linear, Statistics, discriminant
from upcl.core.options import Fraction, option

from .closed_form import ClosedForm

SHRINKAGES = (0.9, 0.5, 0.2, 0.1, 0.03, 0.01)


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
        "unit features; the exact covariance within classes instead of a streaming estimate; the shrinkage is chosen by "
        "cross-validation instead of 1e-4"
    )

    shrinkage: Fraction = option(
        0.0, "share of a multiple of the identity in the covariance; 0: chosen by cross-validation", "paper: 1e-4"
    )

    @property
    def strengths(self) -> Sequence[float]:
        return (self.shrinkage,) if self.shrinkage else SHRINKAGES

    def solve(self, statistics: Statistics, strength: float) -> Linear:
        return discriminant(statistics, strength)
