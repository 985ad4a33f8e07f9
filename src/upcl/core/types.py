"""The data types that methods and the training loop exchange: samples, tasks, batches, losses and stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .recipes import Recipe

Losses = dict[str, Tensor]
"""Named loss terms of one batch. The engine minimises their sum and logs each of them."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs with integer labels.

    Args:
        inputs: uint8 images (N x C x H x W), float feature vectors (N x d), or indices of image files (N), which the
            data set's transform decodes.
        labels: the class of each input (N); converted to int64.

    Example:
        >>> samples = Samples(torch.zeros(3, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 1, 1]))
        >>> len(samples), len(samples + samples[:1])
        (3, 4)
        >>> samples.counts(num_classes=3).tolist()
        [1, 2, 0]
    """

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
        """Count the samples of each class from the labels alone.

        Args:
            num_classes: the length of the result, at least.
        """
        return torch.bincount(self.labels, minlength=num_classes)

    def rows_by_class(self, num_classes: int) -> list[Tensor]:
        """Find the rows of each class, in ascending order, with one sort for all classes.

        Args:
            num_classes: number of classes; larger labels may exist.

        Example:
            >>> samples = Samples(torch.zeros(3, 4), torch.tensor([2, 0, 2]))
            >>> [rows.tolist() for rows in samples.rows_by_class(3)]
            [[1], [], [0, 2]]
        """
        return list(self.labels.argsort(stable=True).split(self.counts(num_classes).tolist()))

    def to(self, device: torch.device) -> Samples:
        """Move inputs and labels to a device.

        Args:
            device: the target device.
        """
        return Samples(self.inputs.to(device), self.labels.to(device))


NO_SAMPLES = Samples(torch.empty(0), torch.empty(0, dtype=torch.int64))


@dataclass(frozen=True, eq=False)
class Task:
    """What a method is given to learn: training images of new classes, and possibly more images of known classes.

    Neither test data nor another task can be reached from here. Labels are positions in the class order, so the new
    classes are `num_old .. num_seen - 1`.

    Args:
        index: the position of the task in the sequence, from 0.
        num_old: number of classes learned before.
        num_new: number of new classes.
        train: the training images of the new classes.
        extra: more training images of known classes, with labels below `num_old`. A method without a memory rejects a
            task with extra images.

    Example:
        >>> images = Samples(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), torch.tensor([2, 2, 3, 3]))
        >>> task = Task(index=1, num_old=2, num_new=2, train=images)
        >>> task.num_seen, len(task.extra)
        (4, 0)
    """

    index: int
    num_old: int
    num_new: int
    train: Samples
    extra: Samples = NO_SAMPLES

    @property
    def num_seen(self) -> int:
        """Number of classes known after this task."""
        return self.num_old + self.num_new


@dataclass(frozen=True, eq=False)
class Batch:
    """One batch of a stage, and its position in the stage.

    Args:
        inputs: augmented, normalised images or feature vectors, on the device.
        labels: their classes.
        epoch: index of the epoch.
        epochs: number of epochs of the stage.
        step: index of the step within the epoch.
        steps: number of steps per epoch.

    Example:
        >>> Batch(torch.zeros(2, 5), torch.tensor([0, 1]), epoch=5, epochs=20, step=0, steps=3).progress
        0.25
    """

    inputs: Tensor
    labels: Tensor
    epoch: int
    epochs: int
    step: int
    steps: int

    @property
    def progress(self) -> float:
        """Share of the stage's epochs that are completed, in [0, 1)."""
        return self.epoch / self.epochs


@dataclass(frozen=True, eq=False)
class Stage:
    """One optimisation that a method requests by yielding it from `learn`.

    Args:
        name: the stage's name in logs.
        data: the samples to train on.
        losses: maps a batch to its named loss terms.
        params: the parameters to optimise; all others stay as they are.
        recipe: epochs, batch size and optimiser settings.
        augment: augment the images. Otherwise images are only normalised, and feature vectors are used as they are.
        frozen: modules that stay in evaluation mode, so that their batch-norm statistics do not change.
        after_step: called after every step of the optimiser, while gradients are still there.
        views: how often each image is in its batch, every time augmented independently: all images once, then all of
            them again in the same order, so that row i shows the same image as row i + B / views.

    Example:
        >>> head = nn.Linear(5, 2)
        >>> def losses(batch: Batch) -> Losses:
        ...     return {"ce": nn.functional.cross_entropy(head(batch.inputs), batch.labels)}
        >>> features = Samples(torch.zeros(4, 5), torch.tensor([0, 0, 1, 1]))
        >>> stage = Stage("head", features, losses, list(head.parameters()), Recipe(epochs=10), augment=False)
    """

    name: str
    data: Samples
    losses: Callable[[Batch], Losses]
    params: Sequence[nn.Parameter]
    recipe: Recipe
    augment: bool = True
    frozen: Sequence[nn.Module] = ()
    after_step: Callable[[], None] | None = None
    views: int = 1
