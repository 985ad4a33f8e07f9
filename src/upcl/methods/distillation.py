"""What most rehearsal methods share: a classification loss, and distillation of the logits of old classes."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from upcl.core.losses import distillation
from upcl.core.options import Positive, option
from upcl.core.types import Batch, Losses
from upcl.nets.network import HeadT

from .base import Method, TermWeights


@dataclass(kw_only=True, eq=False)
class DistillationMethod(Method[HeadT], ABC):
    """Base class of methods with L = a * classification + b * KD_T, where KD_T is used from the second task on.

    Methods differ in a, b and the first term.

    Example:
        >>> from upcl.methods.icarl import ICaRL
        >>> class HalfICaRL(ICaRL):
        ...     def loss_weights(self) -> tuple[float, float]:
        ...         return 1.0, 0.5
        >>> HalfICaRL().temperature
        2.0
    """

    temperature: Positive = option(2.0, "temperature T of the distillation", "PyCIL")

    def loss_weights(self) -> tuple[float, float]:
        """Return the weights of classification and of distillation."""
        return 1.0, 1.0

    def classification(self, scores: Tensor, batch: Batch) -> Tensor:
        """Compute the classification loss: by default, cross-entropy over all classes seen.

        Args:
            scores: logits (B x C).
            batch: the batch.
        """
        return F.cross_entropy(scores, batch.labels)

    def losses(self, batch: Batch) -> Losses:
        old = self.teacher_scores(batch)
        return self.terms(self.net(batch.inputs), old, batch)

    def teacher_scores(self, batch: Batch) -> Tensor | None:
        """Compute the teacher's logits of the old classes (B x C_old); None without a teacher.

        Args:
            batch: the batch.
        """
        return self.teacher(batch.inputs) if self.teacher else None

    def terms(self, scores: Tensor, old: Tensor | None, batch: Batch) -> Losses:
        """Combine the weighted loss terms.

        Args:
            scores: logits (B x C).
            old: the teacher's logits (B x C_old).
            batch: the batch.
        """
        classify, distil = self.loss_weights()
        losses = {"ce": classify * self.classification(scores, batch)}
        if old is not None:
            losses["kd"] = distil * distillation(scores[:, : old.shape[1]], old, self.temperature)
        return losses


@dataclass(kw_only=True, eq=False)
class ShareWeightedMethod(DistillationMethod[HeadT], ABC):
    """Base class of distillation methods whose terms are weighted by the shares of new and old classes.

    Example:
        >>> from upcl.methods.wa import WA
        >>> WA(weighting="normalised").weighting
        'normalised'
    """

    weighting: TermWeights = option(
        "share",
        "'share': weights C_new / C and C_old / C; 'normalised': both divided by C_new / C",
        "paper and PyCIL: share",
    )

    def loss_weights(self) -> tuple[float, float]:
        return self.term_weights(self.weighting)
