"""A network whose parameters are held near earlier values, each with a weight of its own."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from .extractors import FeatureExtractor
from .heads import LinearHead
from .network import Network


class Anchor(nn.Module):
    """Values by name of parameter, as buffers, so that they are saved with the network.

    Example:
        >>> anchor = Anchor()
        >>> anchor["backbone.stem"] = torch.ones(3)
        >>> list(anchor.state_dict()), anchor["backbone.stem"].sum().item()
        (['backbone/stem'], 3.0)
    """

    def __getitem__(self, name: str) -> Tensor:
        return self.get_buffer(name.replace(".", "/"))

    def __setitem__(self, name: str, value: Tensor) -> None:
        self.register_buffer(name.replace(".", "/"), value.detach())


class AnchoredNetwork(Network[LinearHead]):
    """A backbone and a linear head, with what is known about each parameter.

    Args:
        backbone: the feature extractor.

    Attributes:
        values: the values that parameters are held to.
        weights: how strongly each of them is held; zero for what is new.
        traces: what a method adds up while it trains; empty between tasks.

    Example:
        >>> from upcl.nets import make_backbone
        >>> net = AnchoredNetwork(make_backbone("small"))
        >>> net.grow(2)
        >>> net.hold({name: torch.ones_like(value) for name, value in net.named_parameters()})
        >>> net.penalty().item()
        0.0
    """

    def __init__(self, backbone: FeatureExtractor) -> None:
        super().__init__(backbone, LinearHead(backbone.dim))
        self.values, self.weights, self.traces = Anchor(), Anchor(), Anchor()
        for name, parameter in self.named_parameters():
            self.values[name], self.weights[name] = torch.zeros_like(parameter), torch.zeros_like(parameter)

    @torch.no_grad()
    def grow(self, num_new: int) -> None:
        super().grow(num_new)
        for name, parameter in self.named_parameters():
            for anchor in (self.values, self.weights):
                before = anchor[name]
                if before.shape != parameter.shape:
                    anchor[name] = torch.zeros_like(parameter)
                    anchor[name][: len(before)] = before

    @torch.no_grad()
    def hold(self, weights: Mapping[str, Tensor], decay: float = 1.0) -> None:
        """Hold all parameters to their present values, and end the traces.

        Args:
            weights: what is added to the weight of each parameter, by name.
            decay: what the weights so far are multiplied by.
        """
        for name, parameter in self.named_parameters():
            self.values[name] = parameter.clone()
            self.weights[name] = weights[name] + decay * self.weights[name]
        self.traces = Anchor()

    def penalty(self) -> Tensor:
        """The sum of weight x (parameter - value)^2."""
        named = self.named_parameters()
        return torch.stack([(self.weights[name] * (p - self.values[name]).square()).sum() for name, p in named]).sum()
