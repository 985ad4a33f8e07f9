"""The classifier of methods in closed form: statistics of features, and a linear classifier computed from them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.closed_form import Linear, Statistics

from .heads import Head


class StatisticsHead(Head):
    """Linear classifier of unit embeddings that is computed from their statistics, not by gradient.

    Args:
        dim: number of dimensions of the embeddings.

    Example:
        >>> head = StatisticsHead(2)
        >>> head.grow(2)
        >>> embeddings, labels = torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([0, 1])
        >>> head.statistics = head.measure(embeddings, labels)
        >>> head.solution = torch.eye(2), torch.zeros(2)
        >>> head(embeddings).argmax(1).tolist()
        [0, 1]
    """

    gram: Tensor
    sums: Tensor
    counts: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.register_buffer("gram", torch.zeros(dim, dim, dtype=torch.float64))
        self.register_buffer("sums", torch.empty(0, dim, dtype=torch.float64))
        self.register_buffer("counts", torch.empty(0, dtype=torch.float64))
        self.register_buffer("weight", torch.empty(0, dim))
        self.register_buffer("bias", torch.empty(0))

    def extend(self, num_new: int) -> None:
        for name in ("sums", "counts", "weight", "bias"):
            present = getattr(self, name)
            setattr(self, name, torch.cat([present, present.new_zeros(num_new, *present.shape[1:])]))

    @property
    def vectors(self) -> Tensor:
        return self.weight

    def forward(self, embeddings: Tensor) -> Tensor:
        return F.linear(F.normalize(embeddings), self.weight, self.bias)

    def measure(self, embeddings: Tensor, labels: Tensor, gram: Tensor | None = None) -> Statistics:
        """Compute the statistics of some images, in the space of this head.

        Args:
            embeddings: embeddings (N x dim), of any length.
            labels: their classes (N).
            gram: their Gram matrix, if it is known.
        """
        return Statistics.of(embeddings, labels, self.num_classes, gram, unit=True)

    @property
    def statistics(self) -> Statistics:
        """The statistics of all images so far."""
        return Statistics(self.gram, self.sums, self.counts)

    @statistics.setter
    def statistics(self, statistics: Statistics) -> None:
        self.gram, self.sums, self.counts = statistics.gram, statistics.sums, statistics.counts

    @property
    def solution(self) -> Linear:
        """The linear classifier."""
        return self.weight, self.bias

    @solution.setter
    def solution(self, solution: Linear) -> None:
        self.weight, self.bias = (value.to(self.weight.dtype) for value in solution)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Accept a state without the Gram matrix: it is large, and predictions do not need it."""
        state_dict.setdefault(f"{prefix}gram", torch.zeros_like(self.gram))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forget(self, label: int) -> None:
        """Erase the mean, the count and the row of a class. The Gram matrix does not separate classes: subtract the
        statistics of its images first, if they are available.

        Args:
            label: index of the class.
        """
        for value in (self.sums, self.counts, self.weight, self.bias):
            value[label] = 0
