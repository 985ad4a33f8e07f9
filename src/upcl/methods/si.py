"""SI (Zenke et al., ICML 2017): parameters are held by what they contributed to the fall of the loss."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch

from upcl.core.options import NonNegative, Positive, option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Stage, Task

from .anchored import AnchoredMethod

PATH, BEFORE, START = "path.", "before.", "start."


@dataclass(kw_only=True, eq=False)
class SI(AnchoredMethod):
    """Synaptic Intelligence.

    `L = CE(z_new, y) + c sum_i Omega_i (theta_i - theta*_i)^2`. During a task, omega_i adds up -g_i dtheta_i over all
    steps, where g is the gradient of the cross-entropy; after it, Omega_i grows by omega_i / (Delta_i^2 + xi), where
    Delta_i is the way from the beginning to the end of the task.

    References:
        F. Zenke, B. Poole and S. Ganguli. Continual Learning Through Synaptic Intelligence. ICML 2017.

    Example:
        >>> SI(strength=0.5).factor
        0.5
    """

    name = "si"
    title = "SI"
    paper = "Continual Learning Through Synaptic Intelligence (ICML 2017)"
    summary = "keeps no images: holds each parameter by what it contributed to the fall of earlier losses"
    deviations = (
        "SGD with momentum like every other method (the paper: Adam), so that dtheta follows the momentum; negative "
        "importance counts as zero (authors' code); the gradient is that of the cross-entropy, without the penalty"
    )
    recipes = Recipes(
        first=Recipe(epochs=200, milestones=(60, 120, 170)),
        later=Recipe(epochs=80, milestones=(40, 70), weight_decay=2e-4),
    )

    strength: NonNegative = option(0.1, "c, the weight of the penalty", "paper, split CIFAR")
    damping: Positive = option(
        1e-3, "xi, keeps the importance of parameters that hardly moved finite", "paper, split CIFAR"
    )

    @property
    def factor(self) -> float:
        return self.strength

    def begin(self, task: Task) -> None:
        super().begin(task)
        for name, parameter in self.net.named_parameters():
            for key in (BEFORE, START):
                self.net.traces[key + name] = parameter.detach().clone()
            self.net.traces[PATH + name] = torch.zeros_like(parameter)

    def stage(self) -> Stage:
        """Return the main stage, which adds up the path of every parameter."""
        return dataclasses.replace(super().stage(), after_step=self.follow)

    @torch.no_grad()
    def follow(self) -> None:
        """Add what the last step contributed; the gradient of the penalty, which is known, is subtracted."""
        traces = self.net.traces
        for name, parameter in self.net.named_parameters():
            if parameter.grad is not None:
                before = traces[BEFORE + name]
                pull = 2 * self.factor * self.net.weights[name] * (before - self.net.values[name])
                traces[PATH + name].sub_((parameter.grad - pull) * (parameter - before))
                before.copy_(parameter)

    @torch.no_grad()
    def consolidate(self) -> None:
        traces, importance = self.net.traces, {}
        for name, parameter in self.net.named_parameters():
            way = parameter - traces[START + name]
            importance[name] = (traces[PATH + name] / (way.square() + self.damping)).clamp(min=0)
        self.net.hold(importance)
