"""Which photos of a classifier in closed form are learned from and which are held out: a function of the set of photos.

Features of both are stored, so photos can change sides at any step. Learning in any order and in any number of steps
then gives the same two sets as learning everything at once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

import torch

from upcl.core.types import Samples
from upcl.data.io.listing import ImageFile

from .bundle import ModelSpec, ModelState
from .closed_form import Digests, is_closed_form, sort_features
from .hold_out import choose_held_out, split_by_digest, split_by_folder
from .intake import NewImages

Division = Callable[[Sequence[ImageFile]], tuple[list[ImageFile], list[ImageFile]]]
"""Divides the images of a folder into those to learn from and those to hold out."""


def decides_sides(spec: ModelSpec) -> bool:
    """Whether a model decides which photos it holds out, and again at every step.

    Args:
        spec: what the model is made with.

    Example:
        >>> decides_sides(ModelSpec("ncm", {}, "small", 3, 32, (0.5,) * 3, (0.2,) * 3, "20/class", features=True))
        True
    """
    return is_closed_form(spec) and spec.keep != "none"


def division_of(spec: ModelSpec) -> Division:
    """How the photos of a folder are divided before they are offered to a model that works on features.

    A model that decides itself gets all photos to learn from, but for those of a test folder. One that keeps only sums
    cannot take a photo out of them, so each photo is divided by its own digest alone.

    Args:
        spec: what the model is made with.

    Example:
        >>> spec = ModelSpec("ncm", {}, "small", 3, 32, (0.5,) * 3, (0.2,) * 3, "20/class", features=True)
        >>> division_of(spec).__name__
        'split_by_folder'
    """
    if decides_sides(spec):
        return split_by_folder
    return functools.partial(split_by_digest, at_least_one=not is_closed_form(spec))


class PhotoSides(NamedTuple):
    """The photos of a model, with features in the order of `sort_features`.

    Attributes:
        learned: features of the photos that are learned from.
        trained: their digests.
        held_out: features of the photos that are held out.
        tested: their digests.

    Example:
        >>> PhotoSides._fields
        ('learned', 'trained', 'held_out', 'tested')
    """

    learned: Samples
    trained: Digests
    held_out: Samples
    tested: Digests


def decide_sides(sides: PhotoSides, classes: tuple[str | None, ...], assigned: Set[str]) -> PhotoSides:
    """Decide again which photos are held out. Photos of each class are judged together, whenever they were learned.

    Args:
        sides: the photos as they are divided now.
        classes: names of the classes by label; None for a removed class.
        assigned: digests of photos that stay where they are.

    Returns:
        The photos as `choose_held_out` divides them.

    Example:
        >>> learned = Samples(torch.eye(2), torch.tensor([0, 0]))
        >>> sides = PhotoSides(learned, {"cat": ("00000001", "f0000000")}, learned[:0], {})
        >>> decide_sides(sides, ("cat",), assigned=set()).tested
        {'cat': ('00000001',)}
    """
    chosen = {
        name: _held_out_of(sides.trained.get(name, ()), sides.tested.get(name, ()), assigned)
        for name in classes
        if name is not None
    }
    if all(set(sides.tested.get(name, ())) == found for name, found in chosen.items()):  # as usual
        learned, held_out = (sort_features(*part, classes) for part in (sides[:2], sides[2:]))
        return PhotoSides(*learned, *held_out)
    together = Samples(
        torch.cat([sides.learned.inputs, sides.held_out.inputs]),
        torch.cat([sides.learned.labels, sides.held_out.labels]),
    )
    everything = {name: (*sides.trained.get(name, ()), *sides.tested.get(name, ())) for name in chosen}
    together, everything = sort_features(together, everything, classes)
    held = torch.tensor([digest in chosen[name] for name, found in everything.items() for digest in found])
    trained, tested = (
        {name: tuple(d for d in found if (d in chosen[name]) is side) for name, found in everything.items()}
        for side in (False, True)
    )
    return PhotoSides(together[~held], trained, together[held], tested)


def _held_out_of(trained: tuple[str, ...], tested: tuple[str, ...], assigned: Set[str]) -> set[str]:
    """The photos of a class to hold out, those that are assigned included."""
    kept = {digest for digest in tested if digest in assigned}
    free = [digest for digest in (*trained, *tested) if digest not in assigned]
    num_learned = len(trained) + len(tested) - len(kept) - len(free)
    return kept | choose_held_out(free, num_learned, len(kept))


def known_photos(state: ModelState) -> set[str]:
    """Digests of all photos that a state learned from or holds out.

    Args:
        state: the state.

    Example:
        >>> from upcl.core.types import NO_SAMPLES
        >>> state = ModelState({}, (1,), ("cat",), NO_SAMPLES, NO_SAMPLES, trained={"cat": ("a", "b")})
        >>> sorted(known_photos(state))
        ['a', 'b']
    """
    return {digest for part in (state.trained, state.tested) for found in part.values() for digest in found}


def undivided(images: NewImages, spec: ModelSpec) -> NewImages:
    """Offer all images to learn from, if the model decides which of them it holds out.

    Args:
        images: features of images.
        spec: what the model is made with.

    Example:
        >>> spec = ModelSpec("ncm", {}, "small", 3, 32, (0.5,) * 3, (0.2,) * 3, "20/class", features=True)
        >>> images = NewImages(torch.eye(3)[:2], ["cat", "cat"], torch.eye(3)[2:], ["cat"], undecided=True)
        >>> undivided(images, spec).train.shape
        torch.Size([3, 3])
    """
    if not (images.undecided and decides_sides(spec)):
        return dataclasses.replace(images, undecided=False)
    return dataclasses.replace(
        images,
        train=torch.cat([images.train, images.held_out]),
        train_names=[*images.train_names, *images.held_out_names],
        held_out=images.held_out[:0],
        held_out_names=[],
        digests=([*images.digests[0], *images.digests[1]], []),
    )
