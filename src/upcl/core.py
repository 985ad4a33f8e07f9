"""The nouns: samples, tasks, batches, recipes and stages. Imports nothing else of the package but its errors."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor, nn

Losses = dict[str, Tensor]
"""Named terms of one batch. The engine minimises their sum and logs each."""

Count = Annotated[int, Ge(0)]
Natural = Annotated[int, Gt(0)]
Finite = Annotated[float, Gt(-math.inf), Lt(math.inf)]
Positive = Annotated[float, Gt(0), Lt(math.inf)]
NonNegative = Annotated[float, Ge(0), Lt(math.inf)]
Fraction = Annotated[float, Ge(0), Lt(1)]


def option(default: Any, meaning: str, source: str = "") -> Any:
    """A dataclass field that explains itself: `upcl show` prints its meaning and where the default comes from."""
    return dataclasses.field(default=default, metadata={"meaning": meaning, "source": source})


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs with integer labels: uint8 images (N x C x H x W), float feature vectors (N x d) or numbers of files (N),
    which a data set's transform decodes."""

    inputs: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            raise ValueError(f"{len(self.inputs)} inputs but {len(self.labels)} labels")
        object.__setattr__(self, "labels", self.labels.long())

    def __len__(self) -> int:
        return len(self.labels)

    def __add__(self, other: Samples) -> Samples:
        if not len(other):
            return self
        if not len(self):
            return other
        return Samples(torch.cat([self.inputs, other.inputs]), torch.cat([self.labels, other.labels]))

    def __getitem__(self, index: Tensor | slice) -> Samples:
        return Samples(self.inputs[index], self.labels[index])

    def counts(self, num_classes: int) -> Tensor:
        """Images of each class, by counting labels: no image is touched."""
        return torch.bincount(self.labels, minlength=num_classes)

    def to(self, device: torch.device) -> Samples:
        return Samples(self.inputs.to(device), self.labels.to(device))


@dataclass(frozen=True, eq=False)
class Task:
    """What a method is given to learn: training images of the new classes only.

    No test data and no other task can be reached from here. Labels are positions in the class order, so the new
    classes are `num_old .. num_seen - 1`.
    """

    index: int
    num_old: int
    num_new: int
    train: Samples

    @property
    def num_seen(self) -> int:
        return self.num_old + self.num_new


@dataclass(frozen=True, eq=False)
class Batch:
    """Augmented, normalised inputs with labels, and where training stands."""

    inputs: Tensor
    labels: Tensor
    epoch: int
    epochs: int
    step: int
    steps: int

    @property
    def progress(self) -> float:
        """Share of the stage's epochs that are over, in [0, 1)."""
        return self.epoch / self.epochs


Schedule = Literal["step", "cosine", "one-cycle"]

SMALLEST_BATCH = 16  # that `min_steps` may ask for
ONE_CYCLE_RISE = 0.3  # share of the steps that the rate rises for
ONE_CYCLE_START = 1 / 25  # of the top rate
ONE_CYCLE_END = 1e-4 / 25


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How one stage is optimised: SGD with a rate that is a pure function of the step, so it has no state to save."""

    epochs: Natural = option(170, "passes over the stage's data")
    batch_size: Annotated[int, Ge(2)] = option(128, "images a step; the last batch may be smaller")
    min_steps: Count = option(0, "steps an epoch, at least: few images make smaller batches, down to 16; 0: no rule")
    lr: Positive = option(0.1, "learning rate (its top, for one-cycle)")
    momentum: Fraction = option(0.9, "momentum of SGD")
    weight_decay: NonNegative = option(5e-4, "L2 penalty on all trained parameters")
    schedule: Schedule = option("step", "'step' at the milestones, 'cosine' by epoch, or 'one-cycle' by step")
    milestones: tuple[int, ...] = option((), "epoch indices at which 'step' multiplies the rate by gamma")
    gamma: Positive = option(0.1, "factor of each milestone")
    clip: NonNegative = option(0.0, "largest norm of the gradient; 0: no limit")

    def scaled(self, epochs: int) -> Recipe:
        """The same course in another number of epochs: milestones move in proportion."""
        milestones = tuple(max(1, round(m * epochs / self.epochs)) for m in self.milestones)
        return dataclasses.replace(self, epochs=epochs, milestones=milestones)

    def batch_for(self, num: int) -> int:
        """Images a step of a stage with `num` images."""
        if not self.min_steps:
            return self.batch_size
        return min(self.batch_size, max(SMALLEST_BATCH, num // self.min_steps))

    def rate(self, epoch: int, step: int, steps: int) -> float:
        """Learning rate of step `step` of `steps` in epoch `epoch`."""
        if self.schedule == "step":
            return self.lr * self.gamma ** sum(epoch >= m for m in self.milestones)
        if self.schedule == "cosine":
            return self.lr * _cosine(1.0, 0.0, epoch / self.epochs)
        done, last = epoch * steps + step, self.epochs * steps - 1
        top = max(ONE_CYCLE_RISE * (last + 1) - 1, 1e-9)
        if done <= top:
            return self.lr * _cosine(ONE_CYCLE_START, 1.0, done / top)
        return self.lr * _cosine(1.0, ONE_CYCLE_END, (done - top) / (last - top))


def _cosine(start: float, end: float, progress: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * progress)) / 2


@dataclass(frozen=True)
class Recipes:
    """A recipe for the first task and one for the later ones."""

    first: Recipe
    later: Recipe

    def scaled(self, epochs: int) -> Recipes:
        return Recipes(self.first.scaled(epochs), self.later.scaled(epochs))

    def of(self, task: Task) -> Recipe:
        return self.first if task.index == 0 else self.later


@dataclass(frozen=True, eq=False)
class Stage:
    """One optimisation that a method asks for: this data, these losses, these parameters.

    `frozen` modules stay in evaluation mode, so that their batch-norm statistics do not move. `augment` says whether
    the inputs are images to augment; without it images are only normalised, and feature vectors are taken as they are.
    """

    name: str
    data: Samples
    losses: Callable[[Batch], Losses]
    params: Sequence[nn.Parameter]
    recipe: Recipe
    augment: bool = True
    frozen: Sequence[nn.Module] = ()
