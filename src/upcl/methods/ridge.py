"""Ridge regression of frozen features (as in ACIL, Zhuang et al., NeurIPS 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from upcl.core.closed_form import Linear, Statistics, ridge
from upcl.core.options import NonNegative, option

from .closed_form import ClosedForm

PENALTIES = (1e-1, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5)


@dataclass(kw_only=True, eq=False)
class Ridge(ClosedForm):
    """Ridge regression of one-hot targets on frozen features.

    References:
        H. Zhuang, Z. Weng, H. Wei, R. Xie, K.-A. Toh and Z. Lin. ACIL: Analytic Class-Incremental Learning with
        Absolute Memorization and Privacy Protection. NeurIPS 2022.

    Example:
        >>> Ridge(penalty=0.5).strengths
        (0.5,)
    """

    name = "ridge"
    title = "Ridge"
    paper = "ACIL: Analytic Class-Incremental Learning with Absolute Memorization and Privacy Protection (NeurIPS 2022)"
    summary = "frozen features, ridge regression of one-hot targets"
    deviations = (
        "unit features with an intercept; the Gram matrix itself instead of its recursive inverse; the penalty is "
        "chosen by cross-validation"
    )

    penalty: NonNegative = option(
        0.0, "penalty, relative to the total variance of the features; 0: chosen by cross-validation", "this package"
    )

    @property
    def strengths(self) -> Sequence[float]:
        return (self.penalty,) if self.penalty else PENALTIES

    def solve(self, statistics: Statistics, strength: float) -> Linear:
        return ridge(statistics, strength)
