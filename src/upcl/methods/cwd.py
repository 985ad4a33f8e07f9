"""CwD (Shi et al., CVPR 2022): LUCIR whose first task spreads each class's features out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F

from upcl.core.losses import decorrelation
from upcl.core.options import NonNegative, option
from upcl.core.types import Batch, Losses

from .lucir import LUCIR


@dataclass(kw_only=True, eq=False)
class CwD(LUCIR):
    name = "cwd"
    title = "CwD"
    paper = "Mimicking the Oracle: An Initial Phase Decorrelation Approach for Class Incremental Learning (CVPR 2022)"
    summary = "LUCIR with features decorrelated within each class in the first task"
    deviations = (
        "built on LUCIR as the official code is (the UPCL paper says WA); eta is tied to batch and classes: a field"
    )

    eta: NonNegative = option(
        0.5, "weight of the decorrelation in the first task", "official code, CIFAR; ImageNet100: 0.75"
    )
    form: Literal["code", "paper"] = option(
        "code", "sum of off-diagonals over images, or the class mean of all", "code"
    )

    def losses(self, batch: Batch) -> Losses:
        if self.task.index > 0:
            return super().losses(batch)
        features = self.net.features(batch.inputs)
        spread = decorrelation(F.normalize(features), batch.labels, self.form)
        return {"ce": F.cross_entropy(self.net.classify(features), batch.labels), "cwd": self.eta * spread}
