"""Classifier heads that grow: `grow(n)` adds n classes and leaves the old ones as they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Head(nn.Module, ABC):
    """Base class of classifiers that grow: embeddings (B x dim) to one score per class seen so far (B x C).

    Args:
        dim: number of dimensions of the embeddings.

    Attributes:
        num_classes: number of classes so far.

    Example:
        >>> class Nearest(Head):
        ...     def __init__(self, dim: int) -> None:
        ...         super().__init__(dim)
        ...         self.register_buffer("points", torch.empty(0, dim))
        ...
        ...     def extend(self, num_new: int) -> None:
        ...         self.points = torch.cat([self.points, torch.zeros(num_new, self.dim)])
        ...
        ...     @property
        ...     def vectors(self) -> Tensor:
        ...         return self.points
        ...
        ...     def forward(self, embeddings: Tensor) -> Tensor:
        ...         return -torch.cdist(embeddings, self.points)
        ...
        ...     def forget(self, label: int) -> None:
        ...         self.points[label] = 0
        >>> head = Nearest(4)
        >>> head.grow(3)
        >>> head(torch.rand(2, 4)).shape
        torch.Size([2, 3])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.num_classes = 0

    def grow(self, num_new: int) -> None:
        """Add classes; the old ones stay as they are.

        After equal calls of `grow`, two heads have tensors of equal names and shapes.

        Args:
            num_new: number of new classes.
        """
        self.extend(num_new)
        self.num_classes += num_new

    @abstractmethod
    def extend(self, num_new: int) -> None:
        """Create the tensors of new classes after the `num_classes` existing ones.

        Args:
            num_new: number of new classes.
        """

    @property
    @abstractmethod
    def vectors(self) -> Tensor:
        """A vector for each class in the space of the embeddings, in label order (C x dim)."""

    @abstractmethod
    def forward(self, embeddings: Tensor) -> Tensor:
        """Compute scores.

        Args:
            embeddings: embeddings (B x dim).

        Returns:
            Scores (B x C); the largest is the prediction.
        """

    @abstractmethod
    def forget(self, label: int) -> None:
        """Erase what was learned from the images of one class; the class keeps its index.

        Args:
            label: index of the class.
        """

    def diagnostics(self, num_old: int) -> dict[str, Any]:  # noqa: ARG002
        """Return plain values worth watching after each epoch, for the run's events.

        Args:
            num_old: number of old classes.
        """
        return {}


class LinearHead(Head):
    """Linear classifier: scores w_k . f + b_k.

    New rows are Kaiming-uniform for a linear gain, new biases zero.

    Args:
        dim: number of dimensions of the embeddings.

    Example:
        >>> head = LinearHead(4)
        >>> head.grow(2)
        >>> head.grow(3)
        >>> head(torch.rand(7, 4)).shape
        torch.Size([7, 5])
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.weight = nn.Parameter(torch.empty(0, dim))
        self.bias = nn.Parameter(torch.empty(0))

    def extend(self, num_new: int) -> None:
        rows = self.weight.new_empty(num_new, self.dim)
        nn.init.kaiming_uniform_(rows, nonlinearity="linear")
        self.weight = nn.Parameter(torch.cat([self.weight.detach(), rows]))
        self.bias = nn.Parameter(torch.cat([self.bias.detach(), self.bias.new_zeros(num_new)]))

    def widen(self, num_features: int) -> None:
        """Add dimensions to the embeddings; what the head knows of the present ones stays.

        Args:
            num_features: number of new dimensions.
        """
        rows = self.weight.new_empty(len(self.weight), self.dim + num_features)
        nn.init.kaiming_uniform_(rows, nonlinearity="linear")  # as large as a new row's weights
        self.weight = nn.Parameter(torch.cat([self.weight.detach(), rows[:, self.dim :]], 1))
        self.dim += num_features

    @torch.no_grad()
    def reset(self) -> None:
        """Start from new random rows, in place."""
        nn.init.kaiming_uniform_(self.weight, nonlinearity="linear")
        self.bias.zero_()

    @torch.no_grad()
    def align(self, num_old: int) -> None:
        """Multiply the rows of new classes by (mean norm of old rows) / (mean norm of new rows), as WA does.

        Args:
            num_old: number of old classes; without any, nothing changes.
        """
        if num_old:
            norms = self.weight.norm(dim=1)
            self.weight[num_old:] *= norms[:num_old].mean() / norms[num_old:].mean().clamp(min=1e-12)

    @property
    def vectors(self) -> Tensor:
        return self.weight

    def forward(self, embeddings: Tensor) -> Tensor:
        return F.linear(embeddings, self.weight, self.bias)

    @torch.no_grad()
    def forget(self, label: int) -> None:
        self.weight[label] = 0
        self.bias[label] = 0


class CorrectedHead(LinearHead):
    """Linear classifier with a bias correction (alpha, beta) per task: scores alpha z + beta (BiC).

    Args:
        dim: number of dimensions of the embeddings.
        all_pairs: correct the scores of each task by its own pair; otherwise, only those of the newest task.

    Example:
        >>> head = CorrectedHead(4, all_pairs=False)
        >>> head.grow(2)
        >>> [parameter.item() for parameter in head.newest_pair]
        [1.0, 0.0]
    """

    def __init__(self, dim: int, *, all_pairs: bool) -> None:
        super().__init__(dim)
        self.all_pairs = all_pairs
        self.sizes: list[int] = []
        self.alphas = nn.ParameterList()
        self.betas = nn.ParameterList()

    @property
    def newest_pair(self) -> tuple[nn.Parameter, nn.Parameter]:
        """The (alpha, beta) of the newest task."""
        return self.alphas[-1], self.betas[-1]

    def extend(self, num_new: int) -> None:
        super().extend(num_new)
        self.sizes.append(num_new)
        self.alphas.append(nn.Parameter(self.bias.new_ones(())))
        self.betas.append(nn.Parameter(self.bias.new_zeros(())))

    def forward(self, embeddings: Tensor) -> Tensor:
        parts = list(super().forward(embeddings).split(self.sizes, 1))
        for task in range(len(parts)) if self.all_pairs else [-1]:
            parts[task] = self.alphas[task] * parts[task] + self.betas[task]
        return torch.cat(parts, 1)


class MeansHead(LinearHead):
    """Linear classifier that also stores the mean feature of each class (FeTrIL).

    Args:
        dim: number of dimensions of the embeddings.

    Attributes:
        means: mean feature of each class (C x dim); zero until it is set.

    Example:
        >>> head = MeansHead(4)
        >>> head.grow(2)
        >>> head.means.shape
        torch.Size([2, 4])
    """

    means: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.register_buffer("means", torch.empty(0, dim))

    def extend(self, num_new: int) -> None:
        super().extend(num_new)
        self.means = torch.cat([self.means, self.means.new_zeros(num_new, self.dim)])

    def forget(self, label: int) -> None:
        super().forget(label)
        self.means[label] = 0


class CosineHead(Head):
    """Cosine classifier: scores sigma * cos(f, w_k).

    The rows of the newest task (`new`) and of earlier ones (`old`) are separate parameters. New rows are uniform in
    +-1/sqrt(dim).

    Args:
        dim: number of dimensions of the embeddings.
        sigma: a fixed scale; None for one learnable scale that starts at 1.

    Example:
        >>> head = CosineHead(4, sigma=10.0)
        >>> head.grow(2)
        >>> head.grow(3)
        >>> head.old.shape, head.new.shape, bool((head(torch.rand(7, 4)).abs() <= 10).all())
        (torch.Size([2, 4]), torch.Size([3, 4]), True)
    """

    sigma: Tensor

    def __init__(self, dim: int, sigma: float | None = None) -> None:
        super().__init__(dim)
        self.old = nn.Parameter(torch.empty(0, dim))
        self.new = nn.Parameter(torch.empty(0, dim))
        if sigma is None:
            self.sigma = nn.Parameter(torch.ones(()))
        else:
            self.register_buffer("sigma", torch.tensor(sigma))

    @property
    def vectors(self) -> Tensor:
        return torch.cat([self.old, self.new])

    def extend(self, num_new: int) -> None:
        rows = self.new.new_empty(num_new, self.dim).uniform_(-1, 1) / self.dim**0.5
        self.old = nn.Parameter(self.vectors.detach())
        self.new = nn.Parameter(rows)

    def cosines(self, embeddings: Tensor) -> Tensor:
        """Compute the cosines between embeddings and class vectors, without the scale.

        Args:
            embeddings: embeddings (B x dim).
        """
        return F.normalize(embeddings) @ F.normalize(self.vectors).T

    def forward(self, embeddings: Tensor) -> Tensor:
        return self.sigma * self.cosines(embeddings)

    @torch.no_grad()
    def forget(self, label: int) -> None:
        rows, row = (self.old, label) if label < len(self.old) else (self.new, label - len(self.old))
        rows[row] = self.dim**-0.5  # an uninformative direction; zero has none, and an unbounded gradient
