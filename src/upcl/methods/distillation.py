"""What most rehearsal methods share: a classification loss, and distillation of the old classes' logits."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from upcl.core.losses import distillation
from upcl.core.options import Positive, option
from upcl.core.types import Batch, Losses
from upcl.nets.network import HeadT

from .base import Method


@dataclass(kw_only=True, eq=False)
class DistillationMethod(Method[HeadT], ABC):
    """L = a * classification + b * KD_T, KD_T from the second task on. Methods differ in a, b and the first term."""

    temperature: Positive = option(2.0, "temperature of the distillation", "PyCIL")

    def weights(self) -> tuple[float, float]:
        """Of classification and of distillation."""
        return 1.0, 1.0

    def classification(self, scores: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(scores, batch.labels)

    def losses(self, batch: Batch) -> Losses:
        old = self.old_scores(batch)
        return self.terms(self.net(batch.inputs), old, batch)

    def old_scores(self, batch: Batch) -> Tensor | None:
        """What the teacher says of the old classes."""
        return self.teacher(batch.inputs) if self.teacher else None

    def terms(self, scores: Tensor, old: Tensor | None, batch: Batch) -> Losses:
        classify, distil = self.weights()
        losses = {"ce": classify * self.classification(scores, batch)}
        if old is not None:
            losses["kd"] = distil * distillation(scores[:, : old.shape[1]], old, self.temperature)
        return losses
