"""Methods whose network gets branches: in their second task, with features that are given instead of computed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.methods.scenarios import second_task
from upcl.nets import FeatureExtractor, LinearHead
from upcl.nets.expandable import ExpandableNetwork, ParallelBackbone


class Rows(FeatureExtractor):
    """A branch that returns its input."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, images: Tensor) -> Tensor:
        return images


def given_features(method: Any, kind: type[ExpandableNetwork] = ExpandableNetwork) -> Any:
    """Two old and two new classes, and two features of each branch, which are the scores: z is the input. The second
    head returns zeros for all outputs but the last two, which are the newest features."""
    method = second_task(method, LinearHead(4))
    net: Any = kind(ParallelBackbone(Rows(2)))
    net.grow(2)
    net.grow(2)
    with torch.no_grad():
        net.head.weight.copy_(torch.eye(4))
        net.auxiliary.weight.zero_()
        net.auxiliary.weight[-2:] = torch.eye(2)
    net.double()
    net.features = lambda rows: rows  # keeps float64
    method.net = net
    return method


def cross_entropy(scores: Tensor, labels: Tensor) -> float:
    """The mean of -log softmax, by a loop."""
    losses = [float(row.exp().sum().log() - row[label]) for row, label in zip(scores, labels, strict=True)]
    return sum(losses) / len(losses)


def copied(module: Any) -> dict[str, Tensor]:
    """The state of a module as it is now."""
    return {name: value.clone() for name, value in module.state_dict().items()}


def unchanged(module: Any, before: dict[str, Tensor]) -> bool:
    """Whether weights and statistics are as they were."""
    now = module.state_dict()
    return list(now) == list(before) and all(torch.equal(now[name], value) for name, value in before.items())


def num_parameters(module: Any) -> int:
    return sum(p.numel() for p in module.parameters())
