"""BiC (Wu et al., CVPR 2019): a second stage learns two numbers that remove the bias towards new classes."""

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

from .distillation import ShareWeightedMethod

_RECIPE = Recipe(epochs=170, milestones=(60, 100, 140), weight_decay=2e-4)


@dataclass(kw_only=True, eq=False)
class BiC(ShareWeightedMethod[CorrectedHead]):
    """Bias Correction.

    Stage 1: `L = (1 - l) CE(z, y) + l KD_2(z_old, q)` with `l = C_old / C`. Stage 2, on held-out images with the
    network frozen: `L = CE(corrected z, y) + penalty * beta^2 / 2`, where the logits of new classes become alpha z +
    beta.

    References:
        Y. Wu, Y. Chen, L. Wang, Y. Ye, Z. Liu, Y. Guo and Y. Fu. Large Scale Incremental Learning. CVPR 2019.

    Example:
        >>> BiC(held_out=0.2).penalty
        0.1
    """

    name = "bic"
    title = "BiC"
    paper = "Large Scale Incremental Learning (CVPR 2019)"
    summary = "holds images out, and learns a scale and a shift of the new logits on them with the network frozen"
    deviations = (
        "one softmax in the second stage (PyCIL has two), with the network in evaluation mode; at least one held-out "
        "image of each class with two or more; no correction if no old class has two images"
    )
    recipes = Recipes(first=_RECIPE, later=_RECIPE)
    needs_exemplars = True

    held_out: Fraction = option(
        0.1, "share of each old class's exemplars held out for the second stage", "paper, PyCIL"
    )
    penalty: NonNegative = option(0.1, "weight of beta^2 / 2 in the second stage", "official code; PyCIL has none")
    corrections: Literal["last", "all"] = option(
        "last",
        "'last' corrects the logits of the newest task only; 'all' keeps the pair of every task",
        "official code; PyCIL: all",
    )

    def make_net(self) -> Network[CorrectedHead]:
        return self.network_with(lambda dim: CorrectedHead(dim, all_pairs=self.corrections == "all"))

    def learn(self, task: Task) -> Iterator[Stage]:
        self.begin(task)
        self.data, held_out = self.split()
        yield self.stage()
        if len(held_out):
            yield Stage("bias", held_out, self.bias_losses, self.net.head.newest_pair, self.recipe, False, [self.net])
        self.remember()

    def stage(self) -> Stage:
        """Return the main stage, which does not train the bias correction."""
        pairs = {id(p) for p in [*self.net.head.alphas, *self.net.head.betas]}
        return dataclasses.replace(super().stage(), params=[p for p in self.net.parameters() if id(p) not in pairs])

    def bias_losses(self, batch: Batch) -> Losses:
        """Compute the loss terms of the second stage.

        Args:
            batch: a batch of held-out images.
        """
        beta = self.net.head.newest_pair[1]
        losses = {"ce": F.cross_entropy(self.net(batch.inputs), batch.labels)}
        if self.penalty:
            losses["penalty"] = self.penalty * beta.square() / 2
        return losses

    def split(self) -> tuple[Samples, Samples]:
        """Split the data into what trains the network, and equally many random held-out images per class.

        Every class keeps at least one training image.
        """
        old = self.task.num_old
        exemplars = int((self.data.labels < old).sum())
        per_class = max(1, int(self.held_out * exemplars / old)) if old else 0
        held_out = torch.zeros(len(self.data), dtype=torch.bool)
        order = torch.randperm(len(self.data))
        for k in range(self.task.num_seen):
            members = order[self.data.labels[order] == k]
            held_out[members[: min(per_class, len(members) - 1)]] = True
        if not bool((self.data.labels[held_out] < old).any()):
            held_out[:] = False
        return self.data[~held_out], self.data[held_out]
