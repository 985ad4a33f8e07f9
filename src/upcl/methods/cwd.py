"""CwD (Shi et al., CVPR 2022): LUCIR with class-wise decorrelated features in the first task."""

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
    """Class-wise Decorrelation, on LUCIR.

    First task: `L = CE(sigma cos, y) + eta L_dec`, where L_dec penalises correlations between the features of each
    class. Later tasks: LUCIR.

    References:
        Y. Shi, K. Zhou, J. Liang, Z. Jiang, J. Feng, P. Torr, S. Bai and V. Y. F. Tan. Mimicking the Oracle: An
        Initial Phase Decorrelation Approach for Class Incremental Learning. CVPR 2022.

    Example:
        >>> CwD(form="paper").eta
        0.5
    """

    name = "cwd"
    title = "CwD"
    paper = "Mimicking the Oracle: An Initial Phase Decorrelation Approach for Class Incremental Learning (CVPR 2022)"
    summary = "LUCIR with features decorrelated within each class in the first task"
    deviations = (
        "built on LUCIR like the official code (the UPCL paper names WA); the best eta depends on batch size and "
        "number of classes, so it is an option"
    )

    eta: NonNegative = option(
        0.5, "weight of the decorrelation in the first task", "official code, CIFAR; ImageNet100: 0.75"
    )
    form: Literal["code", "paper"] = option(
        "code", "off-diagonal entries summed over images ('code') or averaged over classes ('paper')", "code"
    )

    def losses(self, batch: Batch) -> Losses:
        if self.task.index > 0:
            return super().losses(batch)
        features = self.net.features(batch.inputs)
        spread = decorrelation(F.normalize(features), batch.labels, self.form)
        return {"ce": F.cross_entropy(self.net.classify(features), batch.labels), "cwd": self.eta * spread}
