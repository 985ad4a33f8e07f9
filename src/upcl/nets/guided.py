"""Backbones side by side, the newest guided by a task-agnostic network, and the attention that merges the two."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from upcl.core.errors import UserError

from .expandable import ExpandableNetwork, ParallelBackbone
from .extractors import FeatureExtractor, MapExtractor
from .heads import LinearHead
from .network import Execution, Network


class MergeAttention(nn.Module):
    """Attention by which the places of one map read from its own places and from those of another map.

    Queries come from the first map, keys and values from both, each map with a layer norm and projections of its own;
    there is no output projection.

    Args:
        dim: channels of both maps.
        num_heads: number of attention heads, which divides the channels.

    Raises:
        UserError: If the heads do not divide the channels.

    Example:
        >>> merge = MergeAttention(8, num_heads=2)
        >>> merge(torch.rand(3, 16, 8), torch.rand(3, 16, 8)).shape
        torch.Size([3, 16, 8])
    """

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        if dim % num_heads:
            fitting = ", ".join(str(n) for n in range(1, min(dim, 16) + 1) if dim % n == 0)
            raise UserError(
                f"{num_heads} attention heads do not divide the {dim} features of the backbone: use {fitting}"
            )
        self.num_heads = num_heads
        self.own_norm, self.other_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query = nn.Linear(dim, dim, bias=False)
        self.own, self.other = nn.Linear(dim, 2 * dim, bias=False), nn.Linear(dim, 2 * dim, bias=False)
        for layer in (self.query, self.own, self.other):
            for matrix in layer.weight.split(dim):  # keys and values are projections of their own
                nn.init.xavier_normal_(matrix)

    def forward(self, own: Tensor, other: Tensor) -> Tensor:
        """Merge two maps.

        Args:
            own: places of the map that reads (B x n x dim).
            other: places of the map that is read, too (B x n x dim).

        Returns:
            The merged map (B x n x dim).
        """
        own, other = self.own_norm(own), self.other_norm(other)
        keys_and_values = torch.cat([self.other(other), self.own(own)], 1)
        parts = (self.query(own), *keys_and_values.chunk(2, 2))
        query, keys, values = (part.unflatten(2, (self.num_heads, -1)).transpose(1, 2) for part in parts)
        return F.scaled_dot_product_attention(query, keys, values).transpose(1, 2).flatten(2)


class Views(NamedTuple):
    """What the networks see in images, in training.

    Args:
        features: features of all backbones (B x dim).
        newest: places of the newest backbone's map (B x n x branch dim).
        agnostic: places of the task-agnostic network's map (B x n x branch dim).

    Example:
        >>> Views(torch.rand(2, 8), torch.rand(2, 4, 8), torch.rand(2, 4, 8)).newest.mean(1).shape
        torch.Size([2, 8])
    """

    features: Tensor
    newest: Tensor
    agnostic: Tensor


class GuidedNetwork(ExpandableNetwork):
    """Backbones side by side, and a task-agnostic network that is trained in every task.

    Predictions need `backbone` and `head` alone. The next task needs `agnostic` and `predictor` as well; `auxiliary`,
    `merge` and `transfer` end with each task.

    Args:
        make: creates a backbone whose features are the average of a map.
        num_heads: number of heads of the attention.
        hidden: hidden units of the projector.
        projected: dimensions that the projector maps to.
        agnostic_share: share of the task-agnostic parameters in those that a new branch begins with; the rest are those
            of the branch before.

    Attributes:
        agnostic: the task-agnostic network: a backbone and a projector, without classes.
        predictor: maps task-agnostic features to those of the last task; the identity in the first task.
        merge: carries task-agnostic features into those of the newest backbone; the identity in the first task and
            between tasks.
        transfer: classifies merged features among the newest classes; the identity in the first task and between tasks.

    Raises:
        UserError: If the features of the backbone are not the average of a map, or heads do not divide their number.

    Example:
        >>> from upcl.nets import make_backbone
        >>> net = GuidedNetwork(
        ...     lambda: make_backbone("small"), num_heads=8, hidden=64, projected=32, agnostic_share=0.05
        ... )
        >>> net.grow(3)
        >>> net.grow(2)
        >>> views = net.view(torch.rand(2, 3, 8, 8))
        >>> net.classify(views.features).shape, net.transfer_scores(views).shape
        (torch.Size([2, 5]), torch.Size([2, 2]))
    """

    def __init__(
        self,
        make: Callable[[], FeatureExtractor],
        *,
        num_heads: int,
        hidden: int,
        projected: int,
        agnostic_share: float,
    ) -> None:
        super().__init__(ParallelBackbone(make()))
        backbone, dim = make(), self.backbone.branch_dim
        if not isinstance(backbone, MapExtractor):
            raise UserError(
                "attention needs the places of a map, which this backbone does not have: use resnet18, resnet32 or "
                "medium"
            )
        MergeAttention(dim, num_heads)  # fails now rather than in the second task
        projector = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, projected))
        self.agnostic = Network(backbone, LinearHead(dim), projector)
        self.num_heads, self.agnostic_share = num_heads, agnostic_share
        self.predictor: nn.Module = nn.Identity()
        self.merge: nn.Module = nn.Identity()
        self.transfer: nn.Module = nn.Identity()

    def set_execution(self, execution: Execution) -> None:
        super().set_execution(execution)
        self.agnostic.set_execution(execution)

    def grow(self, num_new: int) -> None:
        is_first = not self.growth
        super().grow(num_new)
        if is_first:
            return
        dim, device = self.backbone.branch_dim, self.head.weight.device
        if len(self.growth) == 2:
            self.predictor = nn.Linear(dim, dim).to(device)
        self.merge = MergeAttention(dim, self.num_heads).to(device)
        self.transfer = nn.Linear(dim, num_new).to(device)
        self._begin_branch(num_new)

    def end_task(self) -> None:
        """Remove what the task alone needed: the second head, the attention and the classifier of merged features."""
        super().end_task()
        self.merge, self.transfer = nn.Identity(), nn.Identity()

    @torch.no_grad()
    def _begin_branch(self, num_new: int) -> None:
        """Mix task-agnostic parameters into the new branch, and let old classes ignore its features at first."""
        for parameter, agnostic in zip(
            self.backbone.newest.parameters(), self.agnostic.backbone.parameters(), strict=True
        ):
            parameter.lerp_(agnostic, self.agnostic_share)
        self.head.weight[:-num_new, -self.backbone.branch_dim :] = 0

    def view(self, images: Tensor) -> Views:
        """Compute the features of all backbones and the maps of the newest and of the task-agnostic one.

        Args:
            images: normalised images (B x channels x H x W).
        """
        dim, known = self.backbone.branch_dim, self.backbone.dim - self.backbone.branch_dim
        flat = self.execute(self._features_and_map, images)
        newest = flat[:, known:].unflatten(1, (dim, -1)).transpose(1, 2)
        agnostic_backbone = self.agnostic.backbone
        assert isinstance(agnostic_backbone, MapExtractor)
        agnostic = self.agnostic.execute(agnostic_backbone.maps, images).flatten(2).transpose(1, 2)
        return Views(torch.cat([flat[:, :known], newest.mean(1)], 1), newest, agnostic)

    def _features_and_map(self, images: Tensor) -> Tensor:
        """One tensor, as sharding requires: features of the older branches, then the flattened map of the newest."""
        *older, newest = self.backbone.branches
        assert isinstance(newest, MapExtractor)
        return torch.cat([*(branch(images) for branch in older), newest.maps(images).flatten(1)], 1)

    def project(self, views: Views) -> Tensor:
        """Project task-agnostic features, to contrast views of images.

        Args:
            views: what the networks see.

        Returns:
            Embeddings (B x projected).
        """
        embeddings: Tensor = self.agnostic.projector(views.agnostic.mean(1))
        return embeddings

    def predict(self, views: Views) -> Tensor:
        """Predict the task-agnostic features of the last task from the present ones.

        Args:
            views: what the networks see.

        Returns:
            Features (B x branch dim).
        """
        features: Tensor = self.predictor(views.agnostic.mean(1))
        return features

    def transfer_scores(self, views: Views) -> Tensor:
        """Score the newest classes by the newest features, merged with task-agnostic ones, which are not trained by it.

        Args:
            views: what the networks see.

        Returns:
            Scores (B x C_new).
        """
        scores: Tensor = self.transfer(self.merge(views.newest, views.agnostic.detach()).mean(1))
        return scores
