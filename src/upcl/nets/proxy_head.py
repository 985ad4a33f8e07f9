"""A cosine classifier with several vectors for each class."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .heads import Head


class ProxyHead(Head):
    """Local similarity classifier (PODNet): each class has several proxies, and the similar ones count more.

    Scores are `sigma * sum_k softmax_k(cos_ck) cos_ck`, where cos_ck is the cosine of an embedding to proxy k of class
    c and sigma a learnable scale that starts at 1. The proxies of the newest task (`new`) and of earlier ones (`old`)
    are separate parameters.

    Args:
        dim: number of dimensions of the embeddings.
        num_proxies: proxies per class.

    Example:
        >>> head = ProxyHead(4, num_proxies=3)
        >>> head.grow(2)
        >>> head.grow(1)
        >>> head.old.shape, head.new.shape, head(torch.rand(5, 4)).shape
        (torch.Size([2, 3, 4]), torch.Size([1, 3, 4]), torch.Size([5, 3]))
    """

    def __init__(self, dim: int, num_proxies: int) -> None:
        super().__init__(dim)
        self.num_proxies = num_proxies
        self.old = nn.Parameter(torch.empty(0, num_proxies, dim))
        self.new = nn.Parameter(torch.empty(0, num_proxies, dim))
        self.sigma = nn.Parameter(torch.ones(()))

    @property
    def proxies(self) -> Tensor:
        """All proxies (C x proxies x dim), in label order."""
        return torch.cat([self.old, self.new])

    @property
    def vectors(self) -> Tensor:
        return F.normalize(F.normalize(self.proxies, dim=2).mean(1))

    def extend(self, num_new: int) -> None:
        rows = self.new.new_empty(num_new, self.num_proxies, self.dim).normal_() / self.dim**0.5
        self.old = nn.Parameter(self.proxies.detach())
        self.new = nn.Parameter(rows)

    def similarities(self, embeddings: Tensor) -> Tensor:
        """Compute the similarity of embeddings to classes, without the scale.

        Args:
            embeddings: embeddings (B x dim).

        Returns:
            Similarities from -1 to 1 (B x C).
        """
        rows = F.normalize(self.proxies.flatten(0, 1))
        cosines: Tensor = (F.normalize(embeddings) @ rows.T).unflatten(1, (-1, self.num_proxies))
        return (cosines.softmax(2) * cosines).sum(2)

    def forward(self, embeddings: Tensor) -> Tensor:
        return self.sigma * self.similarities(embeddings)

    @torch.no_grad()
    def forget(self, label: int) -> None:
        rows, row = (self.old, label) if label < len(self.old) else (self.new, label - len(self.old))
        rows[row] = self.dim**-0.5  # an uninformative direction, as in `CosineHead`
