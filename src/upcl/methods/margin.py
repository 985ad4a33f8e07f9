"""A margin on the logits of a cosine classifier, for any method that wants one."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass

from torch import Tensor

from upcl.core.losses import Margin, margin_logits
from upcl.core.options import Finite, option
from upcl.nets.network import HeadT

from .base import Method


@dataclass(kw_only=True, eq=False)
class MarginMethod(Method[HeadT], ABC):
    """Has the fields of a margin; `margin_on` is what to add to the logits scale * cos of a batch."""

    margin: Margin = option(
        "prior",
        "'prior': scale * cos + log p. 'paper_literal': scale * (cos + log p). 'fixed': margin_size off the target's "
        "cosine. 'columns': margin_size off the new columns' cosines and margin_old off the old ones'. 'none'",
        "official code; the paper's literal form asks for cosine gaps above 2 (table 8.3, rows 2 and 5)",
    )
    margin_size: Finite = option(0.1, "margin of 'fixed' and, for new columns, of 'columns'", "paper's ablation")
    margin_old: Finite = option(0.2, "margin of old columns for 'columns'", "not published; any value but margin_size")

    def margin_on(self, labels: Tensor, scale: Tensor | float) -> Tensor | None:
        sizes = (self.margin_old, self.margin_size)
        return margin_logits(self.margin, labels, self.counts, self.task.num_old, scale, sizes)
