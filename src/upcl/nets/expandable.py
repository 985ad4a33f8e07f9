"""Networks that get a branch with every task, side by side with those before: of DER, MEMO and FOSTER."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .extractors import FeatureExtractor
from .heads import LinearHead
from .network import Network


class ParallelBackbone(FeatureExtractor):
    """Branches side by side, whose features are concatenated.

    Args:
        first: the branch of the first task.
        shared: computes what all branches see of an image; by default, they see the image itself.

    Attributes:
        branches: the branches, the newest last.
        branch_dim: number of features of one branch.

    Example:
        >>> from upcl.nets import make_backbone
        >>> backbone = ParallelBackbone(make_backbone("small"))
        >>> backbone.add_branch()
        >>> backbone(torch.rand(2, 3, 8, 8)).shape, backbone.dim
        (torch.Size([2, 256]), 256)
    """

    def __init__(self, first: FeatureExtractor, shared: nn.Module | None = None) -> None:
        super().__init__()
        self.shared = shared or nn.Identity()
        self.branches = nn.ModuleList([first])
        self.branch_dim = first.dim

    @property
    def dim(self) -> int:  # type: ignore[override]
        """Number of features of all branches."""
        return self.branch_dim * len(self.branches)

    @property
    def newest(self) -> FeatureExtractor:
        """The newest branch."""
        branch = self.branches[-1]
        assert isinstance(branch, FeatureExtractor)
        return branch

    def add_branch(self) -> None:
        """Add a copy of the newest branch, which will be trained while the others stay as they are."""
        self.branches.append(copy.deepcopy(self.newest))

    def drop_branch(self) -> None:
        """Remove the newest branch."""
        del self.branches[-1]

    def forward(self, images: Tensor) -> Tensor:
        shared = self.shared(images)
        return torch.cat([branch(shared) for branch in self.branches], 1)


class ExpandableNetwork(Network[LinearHead]):
    """Branches side by side with one linear head. While a task is learned, a second head on the newest branch alone
    makes it learn more than what the others leave over.

    Args:
        backbone: the branches.

    Attributes:
        auxiliary: the second head, with one output for all old classes and one per new class; the identity in the first
            task and between tasks.

    Example:
        >>> from upcl.nets import make_backbone
        >>> net = ExpandableNetwork(ParallelBackbone(make_backbone("small")))
        >>> net.grow(3)
        >>> net.grow(2)
        >>> net(torch.rand(2, 3, 8, 8)).shape, net.auxiliary_scores(torch.rand(2, 256)).shape
        (torch.Size([2, 5]), torch.Size([2, 3]))
    """

    backbone: ParallelBackbone

    def __init__(self, backbone: ParallelBackbone) -> None:
        super().__init__(backbone, LinearHead(backbone.dim))
        self.auxiliary: nn.Module = nn.Identity()

    def grow(self, num_new: int) -> None:
        if self.growth:
            self.backbone.add_branch()
            self.head.widen(self.backbone.branch_dim)
            self.auxiliary = self.new_head(self.num_auxiliary(num_new))
        super().grow(num_new)

    def end_task(self) -> None:
        """Remove what the task alone needed: the second head."""
        self.auxiliary = nn.Identity()

    def regrow(self, growth: Sequence[int]) -> None:
        """Bring a new network to the shape of one that ended several tasks, to load its weights.

        Args:
            growth: number of classes of each task.
        """
        for num_new in growth:
            self.grow(num_new)
            self.end_task()

    def num_auxiliary(self, num_new: int) -> int:
        """Number of outputs of the second head, in a task that is not the first.

        Args:
            num_new: number of new classes.
        """
        return num_new + 1

    def new_head(self, num_classes: int) -> LinearHead:
        """Create a head for the features of one branch.

        Args:
            num_classes: number of its classes.
        """
        head = LinearHead(self.backbone.branch_dim).to(self.head.weight.device)
        head.grow(num_classes)
        return head

    def auxiliary_scores(self, features: Tensor) -> Tensor:
        """Compute the scores of the second head.

        Args:
            features: features of all branches (B x dim).
        """
        scores: Tensor = self.auxiliary(features[:, -self.backbone.branch_dim :])
        return scores


class CompressibleNetwork(ExpandableNetwork):
    """A network that has two branches while a task is learned, and a single one afterwards (FOSTER).

    The second head has an output for each class seen.

    Args:
        backbone: one branch.

    Example:
        >>> from upcl.nets import make_backbone
        >>> net = CompressibleNetwork(ParallelBackbone(make_backbone("small")))
        >>> net.grow(3)
        >>> net.grow(2)
        >>> net.auxiliary_scores(torch.rand(2, 256)).shape
        torch.Size([2, 5])
        >>> net.compress()
        >>> len(net.backbone.branches), net(torch.rand(2, 3, 8, 8)).shape
        (1, torch.Size([2, 5]))
    """

    def num_auxiliary(self, num_new: int) -> int:
        return self.head.num_classes + num_new

    def compress(self) -> None:
        """Remove the newest branch and the second head, and give all classes new rows; a network with one branch stays
        as it is."""
        if len(self.backbone.branches) > 1:
            self.backbone.drop_branch()
            self.head = self.new_head(self.head.num_classes)
        super().end_task()

    def end_task(self) -> None:
        self.compress()

    def regrow(self, growth: Sequence[int]) -> None:
        """Bring a new network to the shape of one that ended several tasks: one branch, and a row per class.

        Args:
            growth: number of classes of each task.
        """
        for num_new in growth:
            Network.grow(self, num_new)
