"""iCaRL with the focal loss (Lin et al., ICCV 2017) in place of cross-entropy."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from upcl.core.losses import focal
from upcl.core.options import NonNegative, option
from upcl.core.types import Batch

from .icarl import ICaRL


@dataclass(kw_only=True, eq=False)
class Focal(ICaRL):
    """iCaRL with the focal loss.

    `L = mean (1 - p_y)^gamma (-log p_y) + KD_2(z_old, q)`

    References:
        T.-Y. Lin, P. Goyal, R. Girshick, K. He and P. Dollár. Focal Loss for Dense Object Detection. ICCV 2017.

    Example:
        >>> Focal(gamma=1).gamma
        1
    """

    name = "focal"
    title = "FocalLoss"
    paper = "Focal Loss for Dense Object Detection (ICCV 2017), on iCaRL"
    summary = "iCaRL with a classification loss that gives easy images less weight"
    deviations = (
        "no repository has this combination: the focal loss replaces cross-entropy in every task, without class weights"
    )

    gamma: NonNegative = option(
        2.0, "how strongly easy images are down-weighted; 0 is cross-entropy", "the paper; LDAM's code has 1"
    )

    def classification(self, scores: Tensor, batch: Batch) -> Tensor:
        return focal(scores, batch.labels, self.gamma)
