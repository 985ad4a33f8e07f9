"""The classifier of UPCL and NCCIL: fixed prototypes that are assigned to classes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.frames import GrowFrame, extend_uniform
from upcl.core.matching import is_optimal_assignment, optimal_assignment

from .heads import Head

MAX_MATCHED = 512  # classes of one matching, unless there are as many dimensions: its time is cubic


class PrototypeHead(Head):
    """Classifier with fixed prototypes: scores cos(f, phi_k). Nothing here is learned by gradient.

    `frame` holds the vectors in the order of their creation; `assignment` is the index of the vector that each class
    owns, in an integer buffer, so that no copy, move or growth can undo it. `centroids` follow the mean direction of
    each class, and `met` marks the classes that have been seen in a batch.

    Args:
        dim: number of dimensions of the embeddings.
        extend_frame: creates more vectors when classes are added.
        frame: all vectors, if they are fixed in advance (at least as many as classes).

    Example:
        >>> head = PrototypeHead(8)
        >>> head.grow(3)
        >>> features = torch.nn.functional.normalize(head.vectors.flip(0) + 0.1)
        >>> head.update_centroids(features, torch.arange(3), decay=0.9)
        >>> head.assign(num_old=0)
        >>> head.assignment.tolist()
        [2, 1, 0]
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
        """Return the prototype that each new class owns, and the mean cosine between centroids and prototypes.

        Args:
            num_old: number of old classes.
        """
        near = (self.centroids * self.vectors).sum(1)[num_old:]
        return {
            "assignment": (self.assignment[num_old:] - num_old).tolist(),
            "alignment": float(near.mean()),
        }

    @torch.no_grad()
    def update_centroids(self, unit: Tensor, labels: Tensor, decay: float) -> None:
        """Move the centroid of each class in a batch towards its mean direction (exponential moving average).

        The first batch that contains a class sets its centroid.

        Args:
            unit: unit features (B x dim).
            labels: classes (B).
            decay: share of the old centroid.
        """
        means = F.normalize(torch.zeros_like(self.centroids).index_add_(0, labels, unit))
        present = torch.zeros_like(self.met).index_fill_(0, labels, True)
        moved = F.normalize(means.lerp(self.centroids, (decay * self.met)[:, None]))
        self.centroids = torch.where(present[:, None], moved, self.centroids)
        self.met = self.met | present

    @torch.no_grad()
    def assign(self, num_old: int, labels: Tensor | None = None, *, by_distance: bool = False) -> None:
        """Assign the prototypes of the new classes to them so that centroids and prototypes are closest; old ones keep
        theirs.

        "Closest" is the largest sum of cosines (official code) or the smallest sum of distances (the paper's equation).
        The solver is only called if the present assignment is not provably optimal. With more than 512 new classes and
        more than dimensions, up to 512 classes at a time exchange the prototypes that they own.

        Args:
            num_old: number of old classes.
            labels: classes whose centroids have moved; among too many classes for one matching, only these are matched.
            by_distance: minimise distances instead of maximising cosines.
        """
        if self.num_classes - num_old <= max(MAX_MATCHED, self.frame.shape[1]):
            self._match(slice(num_old, None), slice(num_old, self.num_classes), by_distance=by_distance)
            return
        moved = torch.arange(self.num_classes, device=self.met.device) if labels is None else labels.unique()
        for classes in moved[moved >= num_old].split(MAX_MATCHED):
            self._match(classes, self.assignment[classes].sort().values, by_distance=by_distance)

    def _match(self, classes: Tensor | slice, owned: Tensor | slice, *, by_distance: bool) -> None:
        """Assign to these classes the prototypes that they own together, given in ascending order."""
        cosines = self.centroids[classes] @ self.frame[owned].T
        similarity = -(2 - 2 * cosines).clamp(min=0).sqrt() if by_distance else cosines
        prototypes = torch.arange(len(self.frame), device=self.frame.device)[owned]
        present = torch.searchsorted(prototypes, self.assignment[classes])
        if not is_optimal_assignment(similarity, present):
            assignment = self.assignment.clone()
            assignment[classes] = prototypes[optimal_assignment(similarity)]
            self.assignment = assignment
