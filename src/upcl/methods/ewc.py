"""EWC (Kirkpatrick et al., PNAS 2017): parameters are held by their Fisher information."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from upcl.core.options import Natural, NonNegative, Positive, option
from upcl.core.recipes import Recipe, Recipes

from .anchored import AnchoredMethod


@dataclass(kw_only=True, eq=False)
class EWC(AnchoredMethod):
    """Elastic Weight Consolidation, with one penalty for all tasks (online EWC).

    `L = CE(z_new, y) + (lambda / 2) sum_i F_i (theta_i - theta*_i)^2`, where F is the sum over all tasks so far of the
    diagonal Fisher information, and theta* the parameters after the last task.

    References:
        J. Kirkpatrick et al. Overcoming Catastrophic Forgetting in Neural Networks. PNAS 2017. J. Schwarz et al.
        Progress & Compress: A Scalable Framework for Continual Learning. ICML 2018 (one penalty for all tasks).

    Example:
        >>> EWC(strength=10.0).factor
        5.0
    """

    name = "ewc"
    title = "EWC"
    paper = "Overcoming Catastrophic Forgetting in Neural Networks (PNAS 2017)"
    summary = "keeps no images: holds each parameter by its Fisher information for old tasks"
    deviations = (
        "one penalty around the last parameters (Schwarz et al.) instead of one per task; cross-entropy over new "
        "classes alone (PyCIL); Fisher information from squared gradients of single images, where PyCIL squares the "
        "gradient of a batch, which is far smaller"
    )
    recipes = Recipes(
        first=Recipe(epochs=200, milestones=(60, 120, 170)),
        later=Recipe(epochs=180, milestones=(70, 120, 150), weight_decay=2e-4),
    )

    strength: NonNegative = option(1000.0, "lambda, the weight of the penalty", "PyCIL")
    max_fisher: Positive = option(1e-4, "larger values are cut off, so that steps stay stable", "PyCIL")
    decay: NonNegative = option(1.0, "what the Fisher information of earlier tasks is multiplied by", "Schwarz: gamma")
    num_images: Natural = option(256, "images of a task that its Fisher information is estimated with", "FACIL: all")
    fisher: Literal["sampled", "empirical"] = option(
        "sampled",
        "labels drawn from the network's own probabilities, or those of the images",
        "paper; PyCIL: empirical",
    )

    @property
    def factor(self) -> float:
        return self.strength / 2

    def consolidate(self) -> None:
        """Estimate the diagonal Fisher information of the task from single images, and hold all parameters by it; that
        of a frozen backbone is zero."""
        self.net.eval()
        total = {name: torch.zeros_like(value) for name, value in self.net.named_parameters()}
        params = {name: value for name, value in self.net.named_parameters() if value.requires_grad}
        chosen = self.data[torch.randperm(len(self.data))[: self.num_images]]
        for inputs, labels in self.setting.batches(chosen):
            for image, label in zip(inputs.split(1), self.labels_for(inputs, labels).split(1), strict=True):
                # one image at a time: gradients of many, by vmap, need their number times the memory, and are no faster
                grads = torch.autograd.grad(self.classification(self.net(image), label), list(params.values()))
                for name, grad in zip(params, grads, strict=True):
                    total[name] += grad.square()
        fisher = {name: (value / len(chosen)).clamp(max=self.max_fisher) for name, value in total.items()}
        self.net.hold(fisher, self.decay)

    @torch.no_grad()
    def labels_for(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Labels with which the gradient of each image is taken: drawn by the network, or those given.

        Args:
            inputs: images of new classes.
            labels: their labels (B).
        """
        if self.fisher == "empirical":
            return labels
        shares = self.net(inputs)[:, self.task.num_old :].softmax(1)
        return self.task.num_old + torch.multinomial(shares, 1)[:, 0]
