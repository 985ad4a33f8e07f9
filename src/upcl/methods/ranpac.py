"""RanPAC (McDonnell et al., NeurIPS 2023): ridge regression of randomly projected frozen features."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from upcl.core.options import Natural, option
from upcl.nets import Network
from upcl.nets.extractors import FeatureExtractor
from upcl.nets.statistics_head import StatisticsHead

from .ridge import Ridge


class RandomProjection(nn.Module):
    """A fixed random layer: ReLU of unit features times a Gaussian matrix.

    Args:
        num_in: number of features.
        num_out: number of projected features.

    Example:
        >>> bool((RandomProjection(4, 9)(torch.rand(2, 4)) >= 0).all())
        True
    """

    matrix: Tensor

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(torch.initial_seed())  # whatever was drawn before
        self.register_buffer("matrix", torch.randn(num_in, num_out, generator=generator))

    def forward(self, features: Tensor) -> Tensor:
        return F.relu(F.normalize(features) @ self.matrix)


@dataclass(kw_only=True, eq=False)
class RanPAC(Ridge):
    """Ridge regression after a fixed random layer, which makes more classes linearly separable.

    References:
        M. D. McDonnell, D. Gong, A. Parvaneh, E. Abbasnejad and A. van den Hengel. RanPAC: Random Projections and
        Pre-trained Models for Continual Learning. NeurIPS 2023.

    Example:
        >>> RanPAC(expansion=4).expansion
        4
    """

    name = "ranpac"
    title = "RanPAC"
    paper = "RanPAC: Random Projections and Pre-trained Models for Continual Learning (NeurIPS 2023)"
    summary = "frozen features, a fixed random layer, ridge regression"
    deviations = (
        "no adaptation of the backbone in the first task; unit features; an intercept; the penalty is chosen by "
        "five-fold cross-validation of accuracy instead of the error on a fifth of the images"
    )

    expansion: Natural = option(
        2, "projected features per feature; time and memory grow with their square", "paper: about 13 (10,000 of 768)"
    )

    def network_on(self, backbone: FeatureExtractor) -> Network[StatisticsHead]:
        dim = self.expansion * backbone.dim
        return Network(backbone, StatisticsHead(dim), RandomProjection(backbone.dim, dim))
