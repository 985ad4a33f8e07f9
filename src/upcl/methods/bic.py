"""BiC (Wu et al., CVPR 2019): a second stage learns two numbers that take the bias for new classes away."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F

from upcl.core.options import Fraction, NonNegative, option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Samples, Stage, Task
from upcl.nets import CorrectedHead, Network

from .distillation import DistillationMethod

_RECIPE = Recipe(epochs=170, milestones=(60, 100, 140), weight_decay=2e-4)


@dataclass(kw_only=True, eq=False)
class BiC(DistillationMethod[CorrectedHead]):
    name = "bic"
    title = "BiC"
    paper = "Large Scale Incremental Learning (CVPR 2019)"
    summary = "holds images out, then learns on them a scale and a shift of the new logits, the network frozen"
    deviations = (
        "one softmax in the second stage (PyCIL has two), network in evaluation mode there, at least one held-out "
        "image of each class that can spare one; without any old one to spare the correction is left out"
    )
    recipes = Recipes(first=_RECIPE, later=_RECIPE)
    needs_exemplars = True

    held_out: Fraction = option(
        0.1, "share of each old class's exemplars held out for the second stage", "paper, PyCIL"
    )
    penalty: NonNegative = option(0.1, "weight of beta^2 / 2 in the second stage", "official code; PyCIL has none")
    corrections: Literal["last", "all"] = option(
        "last",
        "'last' corrects the newest task's logits only; 'all' keeps every task's pair",
        "official code; PyCIL: all",
    )

    def make_net(self) -> Network[CorrectedHead]:
        return self.build(lambda dim: CorrectedHead(dim, all_pairs=self.corrections == "all"))

    def weights(self) -> tuple[float, float]:
        return 1 - self.old_share, self.old_share

    def learn(self, task: Task) -> Iterator[Stage]:
        self.begin(task)
        self.data, kept_back = self.split()
        yield self.stage()
        if len(kept_back):
            yield Stage("bias", kept_back, self.bias_losses, self.net.head.newest_pair, self.recipe, False, [self.net])
        self.remember()

    def stage(self) -> Stage:
        pairs = {id(p) for p in [*self.net.head.alphas, *self.net.head.betas]}
        return dataclasses.replace(super().stage(), params=[p for p in self.net.parameters() if id(p) not in pairs])

    def bias_losses(self, batch: Batch) -> Losses:
        beta = self.net.head.newest_pair[1]
        losses = {"ce": F.cross_entropy(self.net(batch.inputs), batch.labels)}
        if self.penalty:
            losses["penalty"] = self.penalty * beta.square() / 2
        return losses

    def split(self) -> tuple[Samples, Samples]:
        """What trains the network, and as many random images of each class to hold back, leaving each class one."""
        old = self.task.num_old
        exemplars = int((self.data.labels < old).sum())
        each = max(1, int(self.held_out * exemplars / old)) if old else 0
        back = torch.zeros(len(self.data), dtype=torch.bool)
        order = torch.randperm(len(self.data))
        for k in range(self.task.num_seen):
            members = order[self.data.labels[order] == k]
            back[members[: min(each, len(members) - 1)]] = True
        if not bool((self.data.labels[back] < old).any()):
            back[:] = False
        return self.data[~back], self.data[back]
