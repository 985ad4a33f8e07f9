"""Subsets of a data set, chosen by options after the colon of its name: `cifar100:train=100,test=50`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch

from upcl.core.errors import UserError
from upcl.core.options import Count, Fraction, format_options, option
from upcl.core.splits import hold_out
from upcl.core.types import Samples

from .dataset import Dataset

HOLD_OUT_SEED = 1993


@dataclass(frozen=True, kw_only=True)
class SubsetOptions:
    """A part of a data set.

    Args:
        train: number of training images per class, the first ones in the order of the files; 0 for all.
        test: number of test images per class; 0 for all.
        num_classes: number of classes, the first ones; 0 for all.
        held_out: share of the training images of each class that take the place of the test images. Choose
            hyper-parameters in this way; the test images are then not used at all.

    Example:
        >>> from upcl.data import load_dataset
        >>> small = SubsetOptions(train=3, test=1).apply(load_dataset("digits"))
        >>> small.name, len(small.train), len(small.test)
        ('digits:train=3,test=1', 30, 10)
        >>> tuning = SubsetOptions(held_out=0.2).apply(load_dataset("digits"))
        >>> tuning.name, len(tuning.train) + len(tuning.test) == len(load_dataset("digits").train)
        ('digits:held_out=0.2', True)
    """

    train: int = option(0, "number of training images per class; 0: all")
    test: int = option(0, "number of test images per class; 0: all")
    num_classes: Count = option(0, "number of classes, the first ones; 0: all")
    held_out: Fraction = option(0.0, "share of the training images that take the place of the test images")

    def of_any_data(self) -> SubsetOptions:
        """These options without those that a data set has added to them, and applies itself.

        Example:
            >>> from upcl.data.loaders.imagenet import ImageNet100Options
            >>> ImageNet100Options(list="first", train=5).of_any_data()
            SubsetOptions(train=5, test=0, num_classes=0, held_out=0.0)
        """
        return SubsetOptions(**{field.name: getattr(self, field.name) for field in dataclasses.fields(SubsetOptions)})

    def apply(self, dataset: Dataset) -> Dataset:
        """Reduce a data set; the options become part of its name.

        Args:
            dataset: the complete data set.

        Example:
            >>> from upcl.data import load_dataset
            >>> digits = load_dataset("digits")
            >>> SubsetOptions().apply(digits) is digits
            True
        """
        if self == SubsetOptions():
            return dataset
        if self.held_out >= 1:
            raise UserError(f"{dataset.name}: held_out must be less than 1, not {self.held_out:g}")
        options = format_options(self).lstrip(",")
        train, test = dataset.train, dataset.test
        if self.held_out:
            chosen = torch.from_numpy(hold_out(train.labels, self.held_out, HOLD_OUT_SEED))
            train, test = train[~chosen], train[chosen]
        num_classes = self.num_classes or len(dataset.classes)
        return dataclasses.replace(
            dataset,
            name=f"{dataset.name}{',' if ':' in dataset.name else ':'}{options}",
            classes=dataset.classes[:num_classes],
            tasks=_first_tasks(dataset.tasks, num_classes),
            train=first_per_class(train[train.labels < num_classes], self.train),
            test=first_per_class(test[test.labels < num_classes], self.test),
        )


def _first_tasks(tasks: int | tuple[int, ...], num_classes: int) -> int | tuple[int, ...]:
    """The tasks that the first classes fill, if a data set says how many classes each has."""
    if isinstance(tasks, int):
        return tasks
    before = [sum(tasks[:t]) for t in range(len(tasks))]
    return tuple(min(size, num_classes - done) for size, done in zip(tasks, before, strict=True) if done < num_classes)


def first_per_class(samples: Samples, num: int) -> Samples:
    """Select the first samples of each class, in their order.

    Args:
        samples: labelled samples.
        num: number of samples per class; 0 for all.

    Example:
        >>> samples = Samples(torch.arange(5), torch.tensor([1, 0, 1, 1, 0]))
        >>> first_per_class(samples, 1).inputs.tolist()
        [0, 1]
    """
    if not num:
        return samples
    order = samples.labels.argsort(stable=True)
    counts = samples.counts(int(samples.labels.max()) + 1)
    rank = torch.arange(len(order)) - (counts.cumsum(0) - counts).repeat_interleave(counts)
    return samples[order[rank < num].sort().values]
