"""Classifier heads that grow: `grow(n)` adds n classes and leaves the old ones as they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from upcl.core.frames import GrowFrame, extend_uniform
from upcl.core.matching import is_optimal_assignment, optimal_assignment


class Head(nn.Module, ABC):
    """Maps embeddings (B x dim) to a score for each class seen so far."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.num_classes = 0

    def grow(self, num_new: int) -> None:
        """Add classes. After equal calls of `grow` two heads have tensors of equal names and shapes."""
        self.extend(num_new)
        self.num_classes += num_new

    @abstractmethod
    def extend(self, num_new: int) -> None:
        """Make room for `num_new` classes behind the `num_classes` that are there."""

    @property
    @abstractmethod
    def vectors(self) -> Tensor:
        """A vector for each class in the space of the embeddings, in label order (C x dim)."""

    @abstractmethod
    def forward(self, embeddings: Tensor) -> Tensor: ...

    @abstractmethod
    def forget(self, label: int) -> None:
        """Take out what was learned from the images of one class; its place stays."""

    def diagnostics(self, num_old: int) -> dict[str, Any]:  # noqa: ARG002
        """Plain values worth a look after each epoch, for the run's events."""
        return {}


class LinearHead(Head):
    """Scores w_k . f + b_k. New rows: Kaiming-uniform for a linear gain; new biases: zero."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.weight = nn.Parameter(torch.empty(0, dim))
        self.bias = nn.Parameter(torch.empty(0))

    def extend(self, num_new: int) -> None:
        rows = self.weight.new_empty(num_new, self.dim)
        nn.init.kaiming_uniform_(rows, nonlinearity="linear")
        self.weight = nn.Parameter(torch.cat([self.weight.detach(), rows]))
        self.bias = nn.Parameter(torch.cat([self.bias.detach(), self.bias.new_zeros(num_new)]))

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
    """A linear head with a pair (alpha, beta) for each task: corrected scores alpha z + beta (BiC).

    `all_pairs` corrects each task's scores by its own pair; otherwise only the newest task's are corrected.
    """

    def __init__(self, dim: int, *, all_pairs: bool) -> None:
        super().__init__(dim)
        self.all_pairs = all_pairs
        self.sizes: list[int] = []
        self.alphas = nn.ParameterList()
        self.betas = nn.ParameterList()

    @property
    def newest_pair(self) -> tuple[nn.Parameter, nn.Parameter]:
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
    """A linear head that also keeps the mean feature of each class (FeTrIL)."""

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
    """Scores sigma * cos(f, w_k). Rows of the newest task (`new`) and of earlier ones (`old`) are parameters apart.

    sigma is one learnable number, or fixed where `sigma` is given. New rows: uniform in +-1/sqrt(dim).
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
        return F.normalize(embeddings) @ F.normalize(self.vectors).T

    def forward(self, embeddings: Tensor) -> Tensor:
        return self.sigma * self.cosines(embeddings)

    @torch.no_grad()
    def forget(self, label: int) -> None:
        rows, place = (self.old, label) if label < len(self.old) else (self.new, label - len(self.old))
        rows[place] = self.dim**-0.5  # a direction that tells nothing; zero has none, and a gradient without bounds


class PrototypeHead(Head):
    """Scores cos(f, phi_k) with fixed prototypes; nothing here is learned by gradient.

    `frame` holds the vectors in the order they were made and `assignment` says which one each class owns: an integer
    buffer of its own, so no copy, move or growth can undo it. `centroids` follow each class's mean direction. The frame
    grows with the classes by `more`, or is given whole in advance.
    """

    frame: Tensor
    assignment: Tensor
    centroids: Tensor
    met: Tensor

    def __init__(self, dim: int, *, extend_frame: GrowFrame = extend_uniform, frame: Tensor | None = None) -> None:
        super().__init__(dim)
        self.extend_frame = extend_frame
        self.register_buffer("frame", torch.empty(0, dim) if frame is None else frame)
        self.register_buffer("assignment", torch.empty(0, dtype=torch.int64))
        self.register_buffer("centroids", torch.empty(0, dim))
        self.register_buffer("met", torch.empty(0, dtype=torch.bool))

    @property
    def vectors(self) -> Tensor:
        """The prototype phi_k of each class."""
        return self.frame[self.assignment]

    def extend(self, num_new: int) -> None:
        device, old, seen = self.frame.device, self.num_classes, self.num_classes + num_new
        if len(self.frame) < seen:
            self.frame = torch.cat([self.frame, self.extend_frame(self.frame.cpu(), seen - len(self.frame)).to(device)])
        self.assignment = torch.cat([self.assignment, torch.arange(old, seen, device=device)])
        self.centroids = torch.cat([self.centroids, self.frame[old:seen]])
        self.met = torch.cat([self.met, torch.zeros(num_new, dtype=torch.bool, device=device)])

    def forward(self, embeddings: Tensor) -> Tensor:
        return F.normalize(embeddings) @ self.vectors.T

    def forget(self, label: int) -> None:
        self.centroids[label] = 0

    @torch.no_grad()
    def diagnostics(self, num_old: int) -> dict[str, Any]:
        """Which prototype each new class owns, and how near their centroids are on the average (cosine)."""
        near = (self.centroids * self.vectors).sum(1)[num_old:]
        return {
            "assignment": (self.assignment[num_old:] - num_old).tolist(),
            "alignment": float(near.mean()),
        }

    @torch.no_grad()
    def update_centroids(self, unit: Tensor, labels: Tensor, decay: float) -> None:
        """Move each present class's centroid to its mean direction in this batch; the first sight overwrites."""
        means = F.normalize(torch.zeros_like(self.centroids).index_add_(0, labels, unit))
        present = torch.zeros_like(self.met).index_fill_(0, labels, True)
        moved = F.normalize(means.lerp(self.centroids, (decay * self.met)[:, None]))
        self.centroids = torch.where(present[:, None], moved, self.centroids)
        self.met = self.met | present

    @torch.no_grad()
    def assign(self, num_old: int, *, by_distance: bool = False) -> None:
        """Share the prototypes of the classes from `num_old` on among them so that they lie nearest the centroids.

        "Nearest" is the largest summed cosine (official code) or the smallest summed distance (the paper's equation).
        The solver is only called where the present assignment is not provably the best.
        """
        cosines = self.centroids[num_old:] @ self.frame[num_old : self.num_classes].T
        similarity = -(2 - 2 * cosines).clamp(min=0).sqrt() if by_distance else cosines
        if not is_optimal_assignment(similarity, self.assignment[num_old:] - num_old):
            new = optimal_assignment(similarity) + num_old
            self.assignment = torch.cat([self.assignment[:num_old], new])
