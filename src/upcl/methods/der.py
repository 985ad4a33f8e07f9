"""DER (Yan et al., CVPR 2021): every task adds a backbone; those of earlier tasks stay as they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F

from upcl.core.options import NonNegative, Positive, option
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Samples, Stage, Task

from .expanding import ExpandingMethod

_RECIPE = Recipe(epochs=170, milestones=(100, 120))


@dataclass(kw_only=True, eq=False)
class DER(ExpandingMethod):
    """Dynamically Expandable Representation, without pruning.

    `L = CE(z, y) + lambda_a CE(a, y')`: z are scores from the features of all backbones, a scores from the newest one
    alone, and y' is 0 for every old class. Then the head alone is trained by `CE(z / delta, y)` on
    equally many images of each class.

    References:
        S. Yan, J. Xie and X. He. DER: Dynamically Expandable Representation for Class Incremental Learning. CVPR 2021.

    Example:
        >>> DER(auxiliary=0.5).temperature
        5.0
    """

    name = "der"
    title = "DER"
    paper = "DER: Dynamically Expandable Representation for Class Incremental Learning (CVPR 2021)"
    summary = "adds a backbone with every task, freezes the others, and trains the head again on equally many images"
    deviations = (
        "masks and their pruning are left out, as in the authors' published code ('DER w/o P' in the paper); the head "
        "keeps its rows (the paper starts from new ones, also when it is trained again) and has a bias; no warm-up of "
        "the learning rate; the head is not trained again if a class has no image; PyCIL aligns weights (WA) instead"
    )
    official_options: ClassVar[Mapping[str, Any]] = {"reset_head": True}
    recipes = Recipes(first=_RECIPE, later=_RECIPE)

    temperature: Positive = option(5.0, "delta, divides the scores while the head is trained again", "official code")
    head_share: NonNegative = option(
        30 / 170,
        "epochs of training the head again, as a share of the task's; 0 leaves it out",
        "official code: 30 of 170",
    )
    reset_head: bool = option(
        False,
        "train the head again from new random weights",
        "paper, official code: yes; 15 epochs are too few for that (docs/parity.md)",
    )

    @property
    def online_obstacle(self) -> str:
        """The head sees images of the task a second time."""
        return "its head is trained again on images of the task; add --set head_share=0" if self.head_share else ""

    def learn(self, task: Task) -> Iterator[Stage]:
        self.begin(task)
        yield self.stage()
        if task.index > 0 and self.head_share and bool(self.counts.all()):
            yield self.head_stage()
        self.remember()

    def head_stage(self) -> Stage:
        """Return the second stage: the head alone, on equally many images of each class."""
        if self.reset_head:
            self.net.head.reset()
        epochs = max(1, round(self.head_share * self.recipe.epochs))
        recipe = dataclasses.replace(self.recipe, epochs=epochs, milestones=(max(1, epochs // 2),))
        params = list(self.net.head.parameters())
        return Stage("head", self.balanced(), self.head_losses, params, recipe, frozen=[self.net.backbone])

    def balanced(self) -> Samples:
        """Draw as many images of each class from the task's data as its rarest class has."""
        rows = self.data.rows_by_class(self.task.num_seen)
        num = min(map(len, rows))
        return self.data[torch.cat([of_class[torch.randperm(len(of_class))[:num]] for of_class in rows])]

    def head_losses(self, batch: Batch) -> Losses:
        """Compute the loss of the second stage.

        Args:
            batch: a batch with equally many images of each class, on average.
        """
        return {"ce": F.cross_entropy(self.net(batch.inputs) / self.temperature, batch.labels)}
