"""Corrections of a model without its photos: rename and merge classes, move or remove single photos."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch

from upcl.core.errors import UserError, unknown_choice
from upcl.core.types import Samples

from .bundle import Bundle, HistoryEntry, ModelState
from .closed_form import (
    Digests,
    changed_gram,
    fit_classifier,
    is_closed_form,
    require_features,
    sort_features,
    weights_to_store,
)
from .evaluation import evaluate_held_out
from .extractor import backbone_weights
from .update import utc_now

T = TypeVar("T")


def rename_class(bundle: Bundle, name: str, new: str) -> Bundle:
    """Give a class another name, in all stored states and in the history. Nothing is computed.

    Args:
        bundle: the model.
        name: the present name.
        new: the new name.

    Raises:
        UserError: if the class is unknown, or the new name is taken or empty.

    Example:
        >>> from upcl.core.types import NO_SAMPLES
        >>> from upcl.model.bundle import ModelSpec
        >>> spec = ModelSpec("upcl", {}, "small", channels=1, size=8, mean=(0.5,), std=(0.2,), memory="20/class")
        >>> state = ModelState({}, (2,), ("cat", "dog"), exemplars=NO_SAMPLES, held_out=NO_SAMPLES)
        >>> bundle = Bundle(spec, (HistoryEntry("2026-01-01", added=("cat", "dog")),), {0: state})
        >>> rename_class(bundle, "cat", "lion").state.classes
        ('lion', 'dog')
    """
    _require_class(bundle, name)
    if not new.strip():
        raise UserError("the new name is empty")
    if any(new in state.classes for state in bundle.states.values()):
        raise UserError(f"there is a class '{new}' already: to make one class of both, use `upcl merge`")

    def renamed(found: str) -> str:
        return new if found == name else found

    def keys_renamed(values: Mapping[str, T]) -> dict[str, T]:
        return {renamed(key): value for key, value in values.items()}

    states = {
        number: dataclasses.replace(
            state,
            classes=tuple(None if other is None else renamed(other) for other in state.classes),
            trained=keys_renamed(state.trained),
            tested=keys_renamed(state.tested),
        )
        for number, state in bundle.states.items()
    }
    history = tuple(
        dataclasses.replace(
            entry,
            added=tuple(map(renamed, entry.added)),
            extra=keys_renamed(entry.extra),
            by_class=keys_renamed(entry.by_class),
        )
        for entry in bundle.history
    )
    return dataclasses.replace(bundle, states=states, history=history)


def merge_classes(bundle: Bundle, name: str, into: str, device: torch.device) -> Bundle:
    """Make one class of two: all photos of a class become photos of another, and the first name disappears.

    Args:
        bundle: a model with a classifier in closed form.
        name: the class that disappears.
        into: the class that gets its photos.
        device: where to compute.

    Raises:
        UserError: if a class is unknown, both are the same, or the classifier is not in closed form.

    Example:
        >>> merge_classes(bundle, "crow", "raven", torch.device("cpu")).state.classes  # doctest: +SKIP
        (None, 'raven')
    """
    _require_closed_form(bundle)
    label, target = _require_class(bundle, name), _require_class(bundle, into)
    if label == target:
        raise UserError(f"'{name}' cannot be merged with itself")
    state = bundle.state

    def relabelled(samples: Samples) -> Samples:
        return Samples(samples.inputs, torch.where(samples.labels == label, target, samples.labels))

    def merged(digests: Mapping[str, tuple[str, ...]]) -> Digests:
        # rows of the two classes are in label order, so the digests are joined in that order, too
        first, second = (name, into) if label < target else (into, name)
        both = (*digests.get(first, ()), *digests.get(second, ()))
        return {key: value for key, value in digests.items() if key != name} | {into: both}

    changed = dataclasses.replace(
        state,
        classes=tuple(None if other == name else other for other in state.classes),
        exemplars=relabelled(state.exemplars),
        held_out=relabelled(state.held_out),
        trained=merged(state.trained),
        tested=merged(state.tested),
    )
    return _refitted(bundle, changed, f"{name} was merged into {into}", device)


def move_photo(bundle: Bundle, digest: str, name: str, device: torch.device) -> tuple[Bundle, str]:
    """Move a photo that a model knows to another class.

    Args:
        bundle: a model with a classifier in closed form.
        digest: digest of the photo's file.
        name: the class that it belongs to.
        device: where to compute.

    Returns:
        The model with one more step, and the class that the photo had.

    Raises:
        UserError: if the photo or the class is unknown, or the classifier is not in closed form.

    Example:
        >>> move_photo(bundle, "0123456789abcdef", "raven", torch.device("cpu"))[1]  # doctest: +SKIP
        'crow'
    """
    target = _require_class(bundle, name)
    place = _find_photo(bundle, digest)
    if place.name == name:
        raise UserError(f"the photo is known as '{name}' already")
    samples, digests = place.others(bundle.state)
    features = place.samples(bundle.state).inputs[place.row][None]
    moved = {**digests, name: (*digests.get(name, ()), digest)}
    changed = place.replace(bundle.state, samples + Samples(features, torch.tensor([target])), moved)
    return _refitted(bundle, changed, f"a photo was moved from {place.name} to {name}", device), place.name


def remove_photo(bundle: Bundle, digest: str, device: torch.device) -> tuple[Bundle, str]:
    """Remove a photo from a model, which is then the same as if it had never seen it.

    Args:
        bundle: a model with a classifier in closed form.
        digest: digest of the photo's file.
        device: where to compute.

    Returns:
        The model with one step and no earlier state, since those still have the photo, and the class of the photo.

    Raises:
        UserError: if the photo is unknown or the last one of its class, or the classifier is not in closed form.

    Example:
        >>> remove_photo(bundle, "0123456789abcdef", torch.device("cpu"))[1]  # doctest: +SKIP
        'crow'
    """
    place = _find_photo(bundle, digest)
    changed = place.replace(bundle.state, *place.others(bundle.state))
    if not changed.trained[place.name]:
        raise UserError(f"it is the only photo of '{place.name}': use `upcl forget --class '{place.name}'`")
    step = _refitted(bundle, changed, f"a photo of {place.name} was removed", device)
    last = len(step.history) - 1
    return dataclasses.replace(step, states={last: step.state}), place.name


@dataclass(frozen=True)
class _Place:
    """Where a state stores a photo: among the held-out ones or not, its class, its row and its digest."""

    held_out: bool
    name: str
    row: int
    digest: str

    def samples(self, state: ModelState) -> Samples:
        return state.held_out if self.held_out else state.exemplars

    def others(self, state: ModelState) -> tuple[Samples, Digests]:
        """The features and digests there, without the photo."""
        samples, digests = self.samples(state), state.tested if self.held_out else state.trained
        rest = tuple(other for other in digests[self.name] if other != self.digest)
        return samples[torch.arange(len(samples)) != self.row], {**digests, self.name: rest}

    def replace(self, state: ModelState, samples: Samples, digests: Digests) -> ModelState:
        if self.held_out:
            return dataclasses.replace(state, held_out=samples, tested=digests)
        return dataclasses.replace(state, exemplars=samples, trained=digests)


def _find_photo(bundle: Bundle, digest: str) -> _Place:
    _require_closed_form(bundle)
    state = bundle.state
    for held_out, samples, found in ((False, state.exemplars, state.trained), (True, state.held_out, state.tested)):
        for name, digests in found.items():
            if digest in digests:
                rows = (samples.labels == state.classes.index(name)).nonzero()[:, 0]
                return _Place(held_out, name, int(rows[digests.index(digest)]), digest)
    raise UserError("the model has not learned this photo (files are recognised by their content)")


def _refitted(bundle: Bundle, state: ModelState, note: str, device: torch.device) -> Bundle:
    """The model with one more step: the classifier that follows from the features of a state."""
    samples, trained = sort_features(state.exemplars, state.trained, state.classes)
    gram = changed_gram(bundle.state, samples, trained, state.classes)
    spec, method, _ = fit_classifier(bundle.spec, samples, len(state.classes), backbone_weights(state), device, gram)
    held_out, tested = sort_features(state.held_out, state.tested, state.classes)
    state = dataclasses.replace(
        state,
        exemplars=samples,
        trained=trained,
        held_out=held_out,
        tested=tested,
        weights=weights_to_store(method, len(samples)),
    )
    result = evaluate_held_out(method, spec, state)
    entry = HistoryEntry(when=utc_now(), accuracy=result.accuracy, by_class=result.by_class, note=note)
    return dataclasses.replace(bundle, spec=spec).with_step(entry, result.apply(state))


def _require_class(bundle: Bundle, name: str) -> int:
    if name not in bundle.state.class_names:
        raise unknown_choice("class", name, bundle.state.class_names)
    return bundle.state.classes.index(name)


def _require_closed_form(bundle: Bundle) -> None:
    if not is_closed_form(bundle.spec):
        raise UserError(
            "this needs a classifier in closed form on frozen features, the default of `upcl learn` with "
            "upcl[photos] installed; this model was trained"
        )
    require_features(bundle)
