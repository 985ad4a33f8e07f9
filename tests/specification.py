"""Fixtures A and B of the specification: small tensors whose loss values are known to six decimals."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

TOLERANCE = 1e-5


def close(value: Tensor | float, wanted: float) -> bool:
    """Whether a value equals the specified one, which has six decimals."""
    number = float(value.detach()) if isinstance(value, Tensor) else value
    return abs(number - wanted) < TOLERANCE


def unit(rows: list[list[float]]) -> Tensor:
    """Normalised rows in float64."""
    return F.normalize(torch.tensor(rows, dtype=torch.float64))


# A: student logits of 4 classes (2 old, 2 new), teacher logits, labels
X = torch.tensor([[2.0, 0.5, -1.0, 0.3], [0.1, 0.2, 0.3, 1.4], [-0.5, 1.0, 0.8, -0.2]], dtype=torch.float64)
OLD = torch.tensor([[1.5, 0.2], [0.4, 0.1], [-0.3, 1.2]], dtype=torch.float64)
Y = torch.tensor([0, 3, 2])

# B: features, labels and class counts in the second task of two classes each; prototypes are the unit vectors
RAW = [[3.0, 1.0, 1.0, 0.0], [1.0, 0.0, 3.0, 1.0], [0.0, 1.0, 2.0, 1.0], [1.0, 1.0, 0.0, 4.0]]
RAW_TEACHER = [[3.0, 0.5, 1.0, 0.0], [1.0, 0.2, 2.5, 1.0], [0.0, 1.0, 2.0, 0.5], [1.0, 1.0, 0.0, 3.0]]
LABELS = torch.tensor([0, 2, 2, 3])
COUNTS = torch.tensor([20, 20, 500, 500])
