"""What EWC and SI share: no image is kept; parameters that matter to old tasks are held near their values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch.nn.functional as F
from torch import Tensor

from upcl.core.types import Batch, Losses, Stage, Task
from upcl.nets import make_backbone
from upcl.nets.anchor import AnchoredNetwork
from upcl.nets.heads import LinearHead

from .base import Method


@dataclass(kw_only=True, eq=False)
class AnchoredMethod(Method[LinearHead], ABC):
    """Base class of methods that hold parameters near their values after the last task.

    Example:
        >>> from upcl.methods.ewc import EWC
        >>> issubclass(EWC, AnchoredMethod), EWC.uses_memory
        (True, False)
    """

    uses_memory = False
    uses_teacher = False
    net: AnchoredNetwork = field(init=False, repr=False)

    def make_net(self) -> AnchoredNetwork:
        return AnchoredNetwork(make_backbone(self.setting.backbone, self.setting.channels))

    def learn(self, task: Task) -> Iterator[Stage]:
        self.begin(task)
        yield self.stage()
        self.consolidate()

    @property
    @abstractmethod
    def factor(self) -> float:
        """What the sum of weight x (parameter - value)^2 is multiplied by in the loss."""

    @abstractmethod
    def consolidate(self) -> None:
        """Hold all parameters to their present values, after a task."""

    def classification(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy over the new classes: without images of old classes, their scores would only be pushed down.

        Args:
            scores: scores of all classes seen (B x C).
            labels: labels (B).
        """
        num_old = self.task.num_old
        return F.cross_entropy(scores[:, num_old:], labels - num_old)

    def losses(self, batch: Batch) -> Losses:
        losses = {"ce": self.classification(self.net(batch.inputs), batch.labels)}
        if self.task.index > 0:
            losses["penalty"] = self.factor * self.net.penalty()
        return losses
