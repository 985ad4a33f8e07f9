"""New images for a model."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from upcl.core.errors import UserError


class NothingNewError(UserError):
    """All images that were given are known."""


@dataclass(frozen=True, eq=False)
class NewImages:
    """uint8 images (N x C x size x size) to learn from and images that are held out, with a name for each."""

    train: Tensor
    train_names: Sequence[str]
    held: Tensor
    held_names: Sequence[str]


def conflicting_labels(lot: NewImages, known: dict[str, str]) -> Iterator[str]:
    """Images that the model has under the name of another class."""
    every = zip((*lot.train_names, *lot.held_names), (*lot.train, *lot.held), strict=True)
    pairs = Counter((name, known.get(image_digest(image), name)) for name, image in every)
    for (name, other), num in pairs.items():
        if name != other:
            yield (
                f"{num} images of {name} were left out, as the model knows them as {other}: to correct that, "
                f"`upcl rollback`, or `upcl forget --class '{other}'` and learn both"
            )


def image_digest(image: Tensor) -> str:
    """Short: it tells the images of one model apart, and is no secret."""
    return hashlib.sha256(image.numpy().tobytes()).hexdigest()[:16]
