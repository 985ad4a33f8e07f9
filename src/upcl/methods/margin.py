"""A margin on the logits of a cosine classifier, for any method that needs one."""

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
    margin_size: Finite = option(0.1, "margin of 'fixed' and, for new classes, of 'columns'", "paper's ablation")
    margin_old: Finite = option(0.2, "margin of old classes in 'columns'", "not published; any value but margin_size")

    def margin_on(self, labels: Tensor, scale: Tensor | float) -> Tensor | None:
        """Compute what to add to the logits of a batch.

        Args:
            labels: classes (B).
            scale: what cosines are multiplied by.
        """
        sizes = (self.margin_old, self.margin_size)
        return margin_logits(self.margin, labels, self.counts, self.task.num_old, scale, sizes)
