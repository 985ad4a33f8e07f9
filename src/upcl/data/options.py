"""Options after the colon of a data set's name: `cifar100:train=100,test=50`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from ..core import Samples, option
from ..errors import UserError, unknown
from .datasets import Dataset

T = TypeVar("T")


def parse_options(cls: type[T], text: str, what: str) -> T:
    """A dataclass of whole numbers and words from `key=value,key=value`."""
    known: dict[str, Any] = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        if key not in known:
            raise unknown(f"option of {what}", key, known)
        if isinstance(known[key].default, str):
            values[key] = value
            continue
        try:
            values[key] = int(value)
        except ValueError:
            raise UserError(f"{what}: {key} must be a whole number, not '{value}'") from None
        if values[key] < 0:
            raise UserError(f"{what}: {key} must not be negative")
    return cls(**values)


def told_options(options: Any) -> str:
    """`,key=value` of each option that is not at its default."""
    chosen = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    defaults = {field.name: field.default for field in dataclasses.fields(options)}
    return "".join(f",{key}={value}" for key, value in chosen.items() if value != defaults[key])


@dataclass(frozen=True, kw_only=True)
class Slice:
    """How many images of each class are used: the first ones, in the order of the files."""

    train: int = option(0, "training images a class; 0: all")
    test: int = option(0, "test images a class; 0: all")

    def of(self, dataset: Dataset) -> Dataset:
        if not self.train and not self.test:
            return dataset
        chosen = told_options(self).lstrip(",")
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
