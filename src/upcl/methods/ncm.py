"""NCM (Mensink et al., TPAMI 2013): the nearest class mean of frozen features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from upcl.core.closed_form import Linear, Statistics, nearest_mean

from .closed_form import ClosedForm


@dataclass(kw_only=True, eq=False)
class NCM(ClosedForm):
    """Nearest class mean: scores are cosines between features and the mean feature of each class.

    References:
        T. Mensink, J. Verbeek, F. Perronnin and G. Csurka. Distance-Based Image Classification: Generalizing to New
        Classes at Near-Zero Cost. TPAMI 2013.

    Example:
        >>> NCM().strengths
        (0.0,)
    """

    name = "ncm"
    title = "NCM"
    paper = "Distance-Based Image Classification: Generalizing to New Classes at Near-Zero Cost (TPAMI 2013)"
    summary = "frozen features, nearest class mean"
    deviations = "cosines instead of a learned metric, as is usual with pretrained features"

    @property
    def strengths(self) -> Sequence[float]:
        return (0.0,)

    def solve(self, statistics: Statistics, strength: float) -> Linear:  # noqa: ARG002
        return nearest_mean(statistics)
