"""Subsets of a data set, chosen by options after the colon of its name: `cifar100:train=100,test=50`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch

from upcl.core.options import format_options, option
from upcl.core.types import Samples

from .dataset import Dataset


@dataclass(frozen=True, kw_only=True)
class SubsetOptions:
    """Number of images per class: the first ones, in the order of the files.

    Args:
        train: number of training images per class; 0 for all.
        test: number of test images per class; 0 for all.

    Example:
        >>> from upcl.data import load_dataset
        >>> small = SubsetOptions(train=3, test=1).apply(load_dataset("digits"))
        >>> small.name, len(small.train), len(small.test)
        ('digits:train=3,test=1', 30, 10)
    """

    train: int = option(0, "number of training images per class; 0: all")
    test: int = option(0, "number of test images per class; 0: all")

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
        if not self.train and not self.test:
            return dataset
        options = format_options(self).lstrip(",")
        return dataclasses.replace(
            dataset,
            name=f"{dataset.name}{',' if ':' in dataset.name else ':'}{options}",
            train=first_per_class(dataset.train, self.train),
            test=first_per_class(dataset.test, self.test),
        )


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
