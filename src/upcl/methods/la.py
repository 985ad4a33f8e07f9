"""iCaRL with logit adjustment (Menon et al., ICLR 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from upcl.core.losses import log_prior
from upcl.core.options import NonNegative, option
from upcl.core.types import Batch

from .icarl import ICaRL


@dataclass(kw_only=True, eq=False)
class LogitAdjustment(ICaRL):
    """iCaRL with logit-adjusted cross-entropy.

    `L = CE(z + tau log p, y) + KD_2(z_old, q)`, where p_k is the share of class k in the training data of the task.

    References:
        A. K. Menon, S. Jayasumana, A. S. Rawat, H. Jain, A. Veit and S. Kumar. Long-tail Learning via Logit
        Adjustment. ICLR 2021.

    Example:
        >>> LogitAdjustment(tau=0.5).tau
        0.5
    """

    name = "la"
    title = "LA"
    paper = "Long-tail Learning via Logit Adjustment (ICLR 2021), on iCaRL"
    summary = "iCaRL with the log prior of each class added to the training logits, so that rare classes get a margin"
    deviations = "no repository has this combination: the prior is counted on new images and exemplars, once per task"

    tau: NonNegative = option(1.0, "strength of the adjustment", "the paper")

    def classification(self, scores: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(scores + self.tau * log_prior(self.counts), batch.labels)
