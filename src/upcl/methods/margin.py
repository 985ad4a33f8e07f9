"""A margin on the logits of a cosine classifier, for any method that needs one."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass

import torch
from torch import Tensor

from upcl.core.margins import Margin, bounded_log_prior, margin_logits
from upcl.core.options import Finite, NonNegative, option
from upcl.nets.network import HeadT

from .base import Method


@dataclass(kw_only=True, eq=False)
class MarginMethod(Method[HeadT], ABC):
    """Base class of methods with a margin on the logits scale * cos.

    Example:
        >>> from upcl.methods.upcl import UPCL
        >>> UPCL(margin="fixed", margin_size=0.2).margin_size
        0.2
    """

    margin: Margin = option(
        "prior",
        "'prior': scale * cos + log p; 'paper_literal': scale * (cos + log p); 'fixed': subtract margin_size from the "
        "target's cosine; 'columns': subtract margin_size from the cosines of new classes and margin_old from those of "
        "old ones; 'none'",
        "official code; the paper's literal form requires cosine gaps above 2 (table 8.3, rows 2 and 5)",
    )
    prior_strength: NonNegative = option(
        1.0, "factor on log p in 'prior'", "official code (dyn_margin_tro); 1 in the paper"
    )
    prior_reach: NonNegative = option(
        0.0,
        "largest difference of cosines that 'prior' may ask for: log p is scaled down to it; 0: no bound",
        "here: exemplars reach no more (docs/upcl-plus.md)",
    )
    margin_size: Finite = option(0.1, "margin of 'fixed' and, for new classes, of 'columns'", "paper's ablation")
    margin_old: Finite = option(0.2, "margin of old classes in 'columns'", "not published; any value but margin_size")

    def margin_on(self, labels: Tensor, scale: Tensor | float) -> Tensor | None:
        """Compute what to add to the logits of a batch.

        Args:
            labels: classes (B).
            scale: what cosines are multiplied by.
        """
        if self.margin == "prior":
            largest = scale * self.prior_reach if self.prior_reach else torch.inf
            return bounded_log_prior(self.counts, self.prior_strength, largest)
        sizes = (self.margin_old, self.margin_size)
        return margin_logits(self.margin, labels, self.counts, self.task.num_old, scale, sizes)
