"""iCaRL with label-distribution-aware margins (Cao et al., NeurIPS 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from upcl.core.losses import effective_weights, ldam_margins
from upcl.core.margins import target_margin
from upcl.core.options import Fraction, Positive, option
from upcl.core.types import Batch, Losses
from upcl.nets import CosineHead, Head, LinearHead, Network

from .icarl import ICaRL


@dataclass(kw_only=True, eq=False)
class LDAM(ICaRL):
    """iCaRL with the LDAM loss.

    `L = CE(s (cos - m_y e_y), y) + KD_2(s cos_old, q)`, where the margin of class k is `m_k ~ n_k^(-1/4)` and e_y is
    the one-hot vector of the label.

    References:
        K. Cao, C. Wei, A. Gaidon, N. Arechiga and T. Ma. Learning Imbalanced Datasets with Label-Distribution-Aware
        Margin Loss. NeurIPS 2019.

    Example:
        >>> LDAM(max_margin=0.3).scale
        30.0
    """

    name = "ldam"
    title = "LDAM"
    paper = "Learning Imbalanced Datasets with Label-Distribution-Aware Margin Loss (NeurIPS 2019), on iCaRL"
    summary = "iCaRL with a normalised head and margins on the target that are larger for rarer classes"
    deviations = "no repository has this combination: margins are recomputed in each task from new images and exemplars"

    scale: Positive = option(30.0, "factor s of the cosines", "LDAM's code")
    max_margin: Positive = option(0.5, "margin of the rarest class", "LDAM's code")
    linear: bool = option(False, "margins on the raw logits of a linear head, with scale 1", "a variant")
    deferred: bool = option(
        False, "re-weight the classes in the last fifth of the epochs (DRW)", "LDAM's code, optional"
    )
    beta: Fraction = option(0.9999, "beta of the effective numbers of samples in DRW", "LDAM's code")
    plain_kd: bool = option(False, "distil cosines instead of scaled cosines", "a variant: scaled logits reach +-30")

    @property
    def online_obstacle(self) -> str:
        """Re-weighting is deferred to the last fifth of the epochs."""
        return "classes are re-weighted in late epochs only; add --set deferred=false" if self.deferred else ""

    def make_net(self) -> Network[Head]:
        return self.network_with(LinearHead if self.linear else lambda dim: CosineHead(dim, self.scale))

    def classification(self, scores: Tensor, batch: Batch) -> Tensor:
        scale = 1.0 if self.linear else self.scale
        margins = scale * ldam_margins(self.counts, self.max_margin)
        late = self.deferred and batch.progress >= 0.8
        weights = effective_weights(self.counts, self.beta).to(scores.dtype) if late else None
        return F.cross_entropy(
            scores + target_margin(batch.labels, len(margins), margins), batch.labels, weight=weights
        )

    def terms(self, scores: Tensor, old: Tensor | None, batch: Batch) -> Losses:
        losses = super().terms(scores, old, batch)
        if old is not None and self.plain_kd and not self.linear:
            losses["kd"] = super().terms(scores / self.scale, old / self.scale, batch)["kd"]
        return losses
