"""The nouns: samples, tasks, batches, recipes and stages. Imports nothing else of the package but its errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .recipes import Recipe

Losses = dict[str, Tensor]


"""Named terms of one batch. The engine minimises their sum and logs each."""


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


NO_SAMPLES = Samples(torch.empty(0), torch.empty(0, dtype=torch.int64))


@dataclass(frozen=True, eq=False)
class Task:
    """What a method is given to learn: training images of the new classes, and perhaps more of known ones.

    No test data and no other task can be reached from here. Labels are positions in the class order, so the new
    classes are `num_old .. num_seen - 1`; labels of `extra` lie below `num_old`. A method without a memory refuses a
    task with `extra` images.
    """

    index: int
    num_old: int
    num_new: int
    train: Samples
    extra: Samples = NO_SAMPLES

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
