"""Intake of images: which of them are new classes, more of known ones, held out, duplicates or mislabelled."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.types import Samples
from upcl.data.io.listing import counted

from .bundle import ModelState


class NothingNewError(UserError):
    """The model already has every image that it was given.

    Example:
        >>> from upcl.core.types import NO_SAMPLES
        >>> pixels = torch.zeros(1, 1, 8, 8, dtype=torch.uint8)
        >>> before = ModelState({}, (1,), ("cat",), exemplars=Samples(pixels, torch.tensor([0])), held_out=NO_SAMPLES)
        >>> sort_images(NewImages(pixels, ["cat"], pixels[:0], []), before)
        Traceback (most recent call last):
        upcl.model.intake.NothingNewError: nothing to learn: the model already has every one of these images
    """


@dataclass(frozen=True, eq=False)
class NewImages:
    """Images offered to a model: uint8 (N x C x size x size) or features (N x d), with the name of the class of each.

    Args:
        train: images to learn from.
        train_names: their classes.
        held_out: images to hold out for evaluation.
        held_out_names: their classes.
        digests: digests of the images to learn from and to hold out, if they are given as features; otherwise they are
            computed from the pixels.
        photos: files of the images to learn from by digest, for a model that keeps pictures.
        undecided: whether a classifier in closed form may hold out some of the images to learn from, and decide again
            at later steps; otherwise they are divided as given.

    Example:
        >>> pixels = torch.arange(2 * 64, dtype=torch.uint8).view(2, 1, 8, 8)
        >>> images = NewImages(pixels[:1], ["cat"], held_out=pixels[1:], held_out_names=["cat"])
        >>> len(images.train), len(images.held_out)
        (1, 1)
    """

    train: Tensor
    train_names: Sequence[str]
    held_out: Tensor
    held_out_names: Sequence[str]
    digests: tuple[Sequence[str], Sequence[str]] = ((), ())
    photos: Mapping[str, Path] = field(default_factory=dict)
    undecided: bool = False


@dataclass(frozen=True, eq=False)
class Intake:
    """Offered images, sorted; images that the model already has are left out.

    Attributes:
        classes: names of all classes by label: the known ones (None for a removed class), then the new ones.
        num_old: number of labels that existed before.
        train: images of new classes.
        extra: additional images of known classes.
        held_out: images for evaluation, of new and known classes.
        trained: digests of all images that the model will have learned from, by class.
        tested: digests of all images that the model will hold out, by class.
        notes: remarks on images that were left out because the model knows them under another name.
        assigned: digests of the new photos that were divided as given.

    Example:
        >>> from upcl.core.types import NO_SAMPLES
        >>> owls = Samples(torch.zeros(3, 1, 8, 8, dtype=torch.uint8), torch.tensor([2, 2, 2]))
        >>> cats = Samples(torch.ones(2, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 0]))
        >>> intake = Intake(("cat", "dog", "owl"), num_old=2, train=owls, extra=cats, held_out=NO_SAMPLES)
        >>> intake.added, intake.extra_counts
        (('owl',), {'cat': 2})
    """

    classes: tuple[str | None, ...]
    num_old: int
    train: Samples
    extra: Samples
    held_out: Samples
    trained: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tested: dict[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    assigned: frozenset[str] = frozenset()

    @property
    def added(self) -> tuple[str, ...]:
        """Names of the new classes."""
        return tuple(str(name) for name in self.classes[self.num_old :])

    @property
    def num_new(self) -> int:
        """Number of new classes."""
        return len(self.classes) - self.num_old

    @property
    def extra_counts(self) -> dict[str, int]:
        """Number of additional images by name of a known class."""
        counts = self.extra.counts(len(self.classes)).tolist()
        return {str(self.classes[label]): num for label, num in enumerate(counts) if num}


def sort_images(images: NewImages, before: ModelState | None) -> Intake:
    """Sort offered images into new classes, additional images of known classes, and held-out images.

    An image that the model learned from, stores or holds out is recognised by its pixels and left out, whatever its
    name is now. So no image is learned twice, and none is both learned from and held out.

    Args:
        images: the offered images.
        before: the state of the model, or None for a new model.

    Raises:
        NothingNewError: if no image to learn from is left.

    Example:
        >>> pixels = torch.arange(3 * 64, dtype=torch.uint8).view(3, 1, 8, 8)
        >>> intake = sort_images(NewImages(pixels, ["cat", "dog", "cat"], pixels[:1], ["cat"]), before=None)
        >>> intake.added, len(intake.train), len(intake.held_out)
        (('cat', 'dog'), 3, 0)
    """
    known = _known_digests(before)
    old = before.classes if before else ()
    offered = (
        _Digested(images.train, images.train_names, images.digests[0]),
        _Digested(images.held_out, images.held_out_names, images.digests[1]),
    )
    contradictory: tuple[str, ...] = ()
    if images.train.is_floating_point():  # features: single photos can be taken out again, so each is there once
        contradictory = _contradictory(offered)
        offered = (offered[0].distinct().without(contradictory), offered[1].distinct().without(contradictory))
    notes = tuple(_label_conflicts(offered, known))
    if contradictory:
        notes += (f"{counted(len(contradictory), 'photo')} left out: in the folders of several classes",)
    train = offered[0].without(known)
    classes = (*old, *sorted(set(train.names).difference(old)))
    labels = {name: label for label, name in enumerate(classes) if name is not None}
    learned = train.samples(labels)
    if not len(learned):
        reason = "nothing to learn: the model already has every one of these images"
        raise NothingNewError("; ".join([reason, *notes]))
    held_out = offered[1].without({*known, *train.digests})
    return Intake(
        classes=classes,
        num_old=len(old),
        train=learned[learned.labels >= len(old)] if old else learned,
        extra=learned[learned.labels < len(old)],
        held_out=held_out.samples(labels),
        trained=_merge_digests(before.trained if before else {}, train, labels),
        tested=_merge_digests(before.tested if before else {}, held_out, labels),
        notes=notes,
        assigned=frozenset() if images.undecided else frozenset([*train.digests, *held_out.digests]),
    )


def select_rows(images: Tensor, indices: Sequence[int]) -> Tensor:
    """Some images, or features; without a copy if they are all, in the same order.

    Args:
        images: the images.
        indices: which of them.

    Example:
        >>> features = torch.eye(2)
        >>> select_rows(features, [0, 1]) is features
        True
    """
    if list(indices) == list(range(len(images))):
        return images
    return images[torch.tensor(indices, dtype=torch.int64)]


def image_digest(image: Tensor) -> str:
    """Short digest of an image's pixels, to recognise it within one model.

    Args:
        image: a uint8 image.

    Example:
        >>> image_digest(torch.zeros(1, 8, 8, dtype=torch.uint8))
        'f5a5fd42d16a2030'
    """
    return hashlib.sha256(image.numpy().tobytes()).hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class _Digested:
    """Images with names and digests; digests are computed once."""

    images: Tensor
    names: Sequence[str]
    digests: Sequence[str] = ()

    def __post_init__(self) -> None:
        if len(self.digests) != len(self.images):
            object.__setattr__(self, "digests", [image_digest(image) for image in self.images])

    def without(self, known: Collection[str]) -> _Digested:
        return self._select([index for index, digest in enumerate(self.digests) if digest not in known])

    def distinct(self) -> _Digested:
        """The first of equal images of a class."""
        first = {pair: index for index, pair in reversed(list(enumerate(zip(self.names, self.digests, strict=True))))}
        return self._select(sorted(first.values()))

    def samples(self, labels: Mapping[str, int]) -> Samples:
        """The images of the classes in `labels`."""
        chosen = self._select([index for index, name in enumerate(self.names) if name in labels])
        return Samples(chosen.images, torch.tensor([labels[name] for name in chosen.names], dtype=torch.int64))

    def _select(self, indices: Sequence[int]) -> _Digested:
        images = select_rows(self.images, indices)
        return _Digested(images, [self.names[k] for k in indices], [self.digests[k] for k in indices])


def _known_digests(state: ModelState | None) -> dict[str, str]:
    """Names of classes by digest of every image that the model learned from, stores or holds out."""
    if state is None:
        return {}
    known = {digest: name for name, digests in state.trained.items() for digest in digests}
    if state.exemplars.inputs.is_floating_point():  # features: the digests of their photos are stored
        return known | {digest: name for name, digests in state.tested.items() for digest in digests}
    for part in (state.exemplars, state.held_out):
        for image, label in zip(part.inputs, part.labels.tolist(), strict=True):
            known[image_digest(image)] = str(state.classes[label])
    return known


def _contradictory(offered: Iterable[_Digested]) -> tuple[str, ...]:
    """Digests of images that are offered under several names."""
    pairs = {pair for part in offered for pair in zip(part.digests, part.names, strict=True)}
    counts = Counter(digest for digest, _ in pairs)
    return tuple(sorted(digest for digest, num in counts.items() if num > 1))


def _label_conflicts(offered: Iterable[_Digested], known: Mapping[str, str]) -> Iterator[str]:
    """One remark per pair of names under which images are offered and known."""
    digests = ((name, digest) for part in offered for name, digest in zip(part.names, part.digests, strict=True))
    pairs = Counter((name, known.get(digest, name)) for name, digest in digests)
    for (name, other), num in pairs.items():
        if name != other:
            yield (
                f"{counted(num, 'image')} of {name} left out: known as {other}. If that is wrong: `upcl correct MODEL "
                f"PHOTO --class '{name}'`, or forget both classes and learn them"
            )


def _merge_digests(
    before: Mapping[str, tuple[str, ...]], images: _Digested, labels: Mapping[str, int]
) -> dict[str, tuple[str, ...]]:
    added: dict[str, list[str]] = {name: [] for name in labels}
    for digest, name in zip(images.digests, images.names, strict=True):
        if name in added:
            added[name].append(digest)
    return {**before, **{name: (*before.get(name, ()), *digests) for name, digests in added.items()}}
