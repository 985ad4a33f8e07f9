"""What DER, MEMO and FOSTER share: every task adds a branch to the network; those of earlier tasks stay as they are."""

from __future__ import annotations

import dataclasses
from abc import ABC
from dataclasses import dataclass, field

import torch.nn.functional as F

from upcl.core.options import NonNegative, option
from upcl.core.types import Batch, Losses, Stage
from upcl.nets import LinearHead, make_backbone
from upcl.nets.expandable import ExpandableNetwork, ParallelBackbone

from .base import Method


@dataclass(kw_only=True, eq=False)
class ExpandingMethod(Method[LinearHead], ABC):
    """Base class of methods that train a new branch of the network and the heads in each task.

    `L = CE(z, y) + lambda_a CE(a, y')`: z are scores from the features of all branches, a scores from those of the
    newest one alone, and y' is 0 for all old classes, 1 for the first new one, and so on.

    Example:
        >>> from upcl.methods.der import DER
        >>> issubclass(DER, ExpandingMethod), DER(auxiliary=0.5).auxiliary
        (True, 0.5)
    """

    uses_teacher = False
    net: ExpandableNetwork = field(init=False, repr=False)

    auxiliary: NonNegative = option(1.0, "lambda_a, the weight of the loss of the newest branch alone", "official code")

    @property
    def frozen_obstacle(self) -> str:
        """New parts are not trained if the backbone is frozen."""
        return "every task adds a part to the backbone"

    def make_net(self) -> ExpandableNetwork:
        return ExpandableNetwork(self.make_branches())

    def make_branches(self) -> ParallelBackbone:
        """Create the network's backbone: by default, each branch is a complete one of the setting's."""
        return ParallelBackbone(make_backbone(self.setting.backbone, self.setting.channels))

    def stage(self) -> Stage:
        """Return the main stage: all but earlier branches is trained."""
        earlier = list(self.net.backbone.branches[:-1])
        fixed = {id(p) for branch in earlier for p in branch.parameters()}
        params = [p for p in self.net.parameters() if id(p) not in fixed]
        return dataclasses.replace(super().stage(), params=params, frozen=earlier)

    def remember(self) -> None:
        """End the task in the network, and select exemplars with it."""
        self.net.end_task()
        super().remember()

    def losses(self, batch: Batch) -> Losses:
        features = self.net.features(batch.inputs)
        losses = {"ce": F.cross_entropy(self.net.classify(features), batch.labels)}
        if self.task.index > 0:
            targets = (batch.labels - self.task.num_old + 1).clamp(min=0)
            losses["auxiliary"] = self.auxiliary * F.cross_entropy(self.net.auxiliary_scores(features), targets)
        return losses
