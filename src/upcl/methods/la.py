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
    name = "la"
    title = "LA"
    paper = "Long-tail Learning via Logit Adjustment (ICLR 2021), on iCaRL"
    summary = "iCaRL whose training logits carry the log prior of their class, so that rare classes need a margin"
    deviations = "no repository has this combination: the prior is counted on new images and exemplars, once a task"

    tau: NonNegative = option(1.0, "strength of the adjustment", "the paper")

    def classification(self, scores: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(scores + self.tau * log_prior(self.counts), batch.labels)
