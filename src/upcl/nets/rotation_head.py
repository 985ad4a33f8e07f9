"""A head that classifies images and their rotations, and keeps a prototype of each class."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .heads import LinearHead

ROTATIONS = 4  # by 0, 90, 180 and 270 degrees


class RotationHead(LinearHead):
    """Linear classifier with one row for each rotation of a class; its scores are those of upright images.

    The rows of class k are `4k .. 4k + 3`, the first of which is for images that are not rotated.

    Args:
        dim: number of dimensions of the embeddings.

    Attributes:
        prototypes: mean feature of each class (C x dim); zero until it is set.
        radius: standard deviation of the features around a prototype, per dimension; zero until it is set.

    Example:
        >>> head = RotationHead(4)
        >>> head.grow(2)
        >>> head(torch.rand(3, 4)).shape, head.rotation_scores(torch.rand(3, 4)).shape, head.prototypes.shape
        (torch.Size([3, 2]), torch.Size([3, 8]), torch.Size([2, 4]))
    """

    prototypes: Tensor
    radius: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.register_buffer("prototypes", torch.empty(0, dim))
        self.register_buffer("radius", torch.zeros(()))

    def extend(self, num_new: int) -> None:
        super().extend(ROTATIONS * num_new)
        self.prototypes = torch.cat([self.prototypes, self.prototypes.new_zeros(num_new, self.dim)])

    @property
    def vectors(self) -> Tensor:
        return self.weight[::ROTATIONS]

    def forward(self, embeddings: Tensor) -> Tensor:
        return F.linear(embeddings, self.vectors, self.bias[::ROTATIONS])

    def rotation_scores(self, embeddings: Tensor) -> Tensor:
        """Compute scores of all rotations of all classes.

        Args:
            embeddings: embeddings (B x dim).

        Returns:
            Scores (B x 4 C).
        """
        return super().forward(embeddings)

    def sample(self, num: int, num_classes: int) -> tuple[Tensor, Tensor]:
        """Draw embeddings around the prototypes of random classes, from isotropic normal distributions.

        Args:
            num: number of embeddings.
            num_classes: number of classes to draw from, the first ones.

        Returns:
            The embeddings (num x dim), and the row of each one's class (num).
        """
        classes = torch.randint(num_classes, (num,), device=self.prototypes.device)
        noise = torch.randn(num, self.dim, device=self.prototypes.device)
        return self.prototypes[classes] + self.radius * noise, ROTATIONS * classes

    @torch.no_grad()
    def forget(self, label: int) -> None:
        rows = slice(ROTATIONS * label, ROTATIONS * (label + 1))
        self.weight[rows] = 0
        self.bias[rows] = 0
        self.prototypes[label] = 0
