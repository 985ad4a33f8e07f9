"""The network of EFC: it knows the distribution of each class's features, and which directions matter to them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .extractors import FeatureExtractor
from .heads import MeansHead
from .network import Network

JITTER = 1e-5  # added to the variance in every direction


class GaussianHead(MeansHead):
    """Linear classifier that also stores a normal distribution of each class's features.

    Args:
        dim: number of dimensions of the embeddings.

    Attributes:
        factors: a matrix A per class, whose covariance is A A' (C x dim x dim); zero until it is set.
        importance: how much a change of the features changes the predictions, by direction (dim x dim).

    Example:
        >>> head = GaussianHead(2)
        >>> head.grow(1)
        >>> head.learn(0, torch.tensor([[0.0, 1.0], [4.0, 1.0]]))
        >>> (head.factors[0] @ head.factors[0].T).round(decimals=3).tolist()
        [[8.0, 0.0], [0.0, 0.0]]
        >>> head.draw(torch.tensor([0, 0, 0])).shape
        torch.Size([3, 2])
    """

    factors: Tensor
    importance: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.register_buffer("factors", torch.empty(0, dim, dim))
        self.register_buffer("importance", torch.zeros(dim, dim))

    def extend(self, num_new: int) -> None:
        super().extend(num_new)
        self.factors = torch.cat([self.factors, self.factors.new_zeros(num_new, self.dim, self.dim)])

    def forget(self, label: int) -> None:
        super().forget(label)
        self.factors[label] = 0

    def learn(self, label: int, features: Tensor) -> None:
        """Store the distribution of a class.

        Args:
            label: index of the class.
            features: its features (n x dim), at least one.
        """
        rows = features.double()
        centred = rows - rows.mean(0)
        values, vectors = torch.linalg.eigh(centred.T @ centred / max(len(rows) - 1, 1))
        self.means[label] = rows.mean(0).to(self.means.dtype)
        self.factors[label] = (vectors * (values.clamp(min=0) + JITTER).sqrt()).to(self.factors.dtype)

    def draw(self, labels: Tensor) -> Tensor:
        """Draw features from the distributions of classes.

        Args:
            labels: their classes (n).
        """
        noise = torch.randn(len(labels), self.dim, 1, device=labels.device)
        return self.means[labels] + (self.factors[labels] @ noise)[:, :, 0]


class ElasticNetwork(Network[GaussianHead]):
    """A backbone and a Gaussian head; in the first task, a second head classifies rotated images.

    Args:
        backbone: the feature extractor.
        rotations: number of rotations besides none, each of which makes a class of its own; 0 for no second head.

    Attributes:
        turned: the second head; the identity from the end of the first task on.

    Example:
        >>> from upcl.nets import make_backbone
        >>> net = ElasticNetwork(make_backbone("small"), rotations=3)
        >>> net.grow(2)
        >>> net.turned(torch.rand(5, 128)).shape
        torch.Size([5, 6])
    """

    def __init__(self, backbone: FeatureExtractor, rotations: int) -> None:
        super().__init__(backbone, GaussianHead(backbone.dim))
        self.rotations = rotations
        self.turned: nn.Module = nn.Identity()

    def grow(self, num_new: int) -> None:
        is_needed = self.rotations and not self.growth
        device = self.head.weight.device
        self.turned = nn.Linear(self.head.dim, self.rotations * num_new).to(device) if is_needed else nn.Identity()
        super().grow(num_new)

    def end_task(self) -> None:
        """Remove what the first task alone needed: the second head."""
        self.turned = nn.Identity()

    def regrow(self, growth: Sequence[int]) -> None:
        """Bring a new network to the shape of one that ended several tasks, to load its weights.

        Args:
            growth: number of classes of each task.
        """
        super().regrow(growth)
        self.end_task()
