"""Options after the colon of a data set's name: `cifar100:train=100,test=50`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch

from upcl.core.options import format_options, option
from upcl.core.types import Samples

from .dataset import Dataset


@dataclass(frozen=True, kw_only=True)
class Slice:
    """How many images of each class are used: the first ones, in the order of the files."""

    train: int = option(0, "training images a class; 0: all")
    test: int = option(0, "test images a class; 0: all")

    def of(self, dataset: Dataset) -> Dataset:
        if not self.train and not self.test:
            return dataset
        chosen = format_options(self).lstrip(",")
        return dataclasses.replace(
            dataset,
            name=f"{dataset.name}{',' if ':' in dataset.name else ':'}{chosen}",
            train=first_of_each(dataset.train, self.train),
            test=first_of_each(dataset.test, self.test),
        )


def first_of_each(samples: Samples, num: int) -> Samples:
    """The first `num` images of each class (all for 0), in their order."""
    if not num:
        return samples
    order = samples.labels.argsort(stable=True)
    counts = samples.counts(int(samples.labels.max()) + 1)
    rank = torch.arange(len(order)) - (counts.cumsum(0) - counts).repeat_interleave(counts)
    return samples[order[rank < num].sort().values]
