"""Photos that come, go, or change their class: one step of a model in closed form, from features alone."""

from __future__ import annotations

import dataclasses
from collections import UserDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.types import Samples
from upcl.methods import Method

from .bundle import Bundle, HistoryEntry, ModelState
from .closed_form import Digests, fit_classifier, is_closed_form, photo_rows, require_features
from .evaluation import evaluate_held_out
from .extractor import backbone_weights
from .photo_sides import PhotoSides, decide_sides
from .quick_steps import Known
from .stored_sums import changed_gram, weights_to_store
from .update import utc_now

UNKNOWN_PHOTO = "the model has not learned this photo (files are recognised by their content)"


@dataclass(frozen=True, eq=False)
class PhotoChange:
    """What a photo shows from now on.

    Attributes:
        digest: digest of the photo's file.
        name: the class that it belongs to; None takes it out of the model.
        features: its features (d), if the model does not know it.
        held_out: whether a new photo is held out for evaluation, not learned from.

    Example:
        >>> PhotoChange("0123456789abcdef", "raven").held_out
        False
    """

    digest: str
    name: str | None
    features: Tensor | None = None
    held_out: bool = False


class Step(NamedTuple):
    """A model after a step.

    Attributes:
        bundle: the model.
        method: its method, ready to predict.

    Example:
        >>> Step._fields
        ('bundle', 'method')
    """

    bundle: Bundle
    method: Method[Any]


def change_photos(
    bundle: Bundle,
    changes: Sequence[PhotoChange],
    note: str,
    device: torch.device,
    known: Known | None = None,
    *,
    decide: bool = False,
) -> Step:
    """Add, move and take out photos in one step. Names that no class has make new classes; a class that has no photo
    left disappears, and one that has only held-out photos left learns from them.

    Args:
        bundle: a model with a classifier in closed form.
        changes: what each photo shows.
        note: the remark on the step in the history.
        device: where to compute.
        known: what is known from the step before. The step then takes its method and its calibration, too, which is
            quick and, for a few photos, nearly the same; `settle` chooses them again.
        decide: decide again which photos are held out, as learning does; by default, known photos stay learned from or
            held out, and new ones are what the changes say, at later steps, too.

    Returns:
        The model with one more step, and its method.

    Raises:
        UserError: if the model does not know a photo that comes without features, no photo would be left, or the
            classifier is not in closed form.

    Example:
        >>> change = PhotoChange("0123456789abcdef", "raven", torch.rand(1280))
        >>> change_photos(bundle, [change], "a raven", torch.device("cpu")).bundle.state.class_names  # doctest: +SKIP
        ['crow', 'raven']
    """
    require_closed_form(bundle)
    state = bundle.state
    learned, tested = _Photos(state.exemplars, state.trained, state), _Photos(state.held_out, state.tested, state)
    new = {change.digest for change in changes if change.digest not in learned and change.digest not in tested}
    for change in changes:
        found = next((part for part in (learned, tested) if change.digest in part), None)
        if found is None and change.features is None:
            raise UserError(UNKNOWN_PHOTO)
        features = change.features if found is None else found.pop(change.digest)
        if change.name is not None and features is not None:
            target = (tested if change.held_out else learned) if found is None else found
            target[change.digest] = _Photo(change.name, features.half())
    names = {photo.name for part in (learned, tested) for photo in part.values()}
    if not names:
        raise UserError("no photo would be left: remove the file instead")
    with_photos = learned.names()
    for digest in [digest for digest, photo in tested.items() if photo.name not in with_photos]:
        learned[digest] = tested.data.pop(digest)
    old = tuple(name if name in names else None for name in state.classes)
    added = tuple(
        dict.fromkeys(change.name for change in changes if change.name in names.difference(state.class_names))
    )
    classes = (*old, *(name for name in added if name is not None))
    assigned = (state.assigned | new).intersection([*learned, *tested])
    sides = PhotoSides(*learned.in_order(classes, state.exemplars), *tested.in_order(classes, state.exemplars))
    sides = decide_sides(sides, classes, assigned) if decide else sides
    changed = dataclasses.replace(
        state,
        classes=classes,
        growth=(len(classes),),
        exemplars=sides.learned,
        trained=sides.trained,
        held_out=sides.held_out,
        tested=sides.tested,
        assigned=assigned,
    )
    return _refitted(bundle, changed, note, device, known)


def settle(bundle: Bundle, device: torch.device) -> Step:
    """Choose method, regularisation and calibration of the last step again, after quick changes.

    Args:
        bundle: a model with a classifier in closed form.
        device: where to compute.

    Returns:
        The model with the same number of steps, and its method.

    Example:
        >>> len(settle(bundle, torch.device("cpu")).bundle.history) == len(bundle.history)  # doctest: +SKIP
        True
    """
    entry = bundle.history[-1]
    refitted, method = _refitted(bundle, bundle.state, entry.note, device)
    result = refitted.history[-1]
    entry = dataclasses.replace(entry, accuracy=result.accuracy, by_class=result.by_class)
    states = {**bundle.states, max(bundle.states): refitted.state}
    return Step(dataclasses.replace(refitted, history=(*bundle.history[:-1], entry), states=states), method)


class _Photo(NamedTuple):
    """A photo that a state stores."""

    name: str
    features: Tensor


class _Photos(UserDict[str, _Photo]):
    """The photos that a state learned from, or holds out, by digest."""

    def __init__(self, samples: Samples, digests: Digests, state: ModelState) -> None:
        rows = photo_rows(digests, state.classes)
        super().__init__({digest: _Photo(name, samples.inputs[row]) for (name, digest), row in rows.items()})

    def pop(self, digest: str) -> Tensor:  # type: ignore[override]
        """Take a photo out, and return its features."""
        return self.data.pop(digest).features

    def names(self) -> set[str]:
        return {photo.name for photo in self.values()}

    def in_order(self, classes: tuple[str | None, ...], like: Samples) -> tuple[Samples, Digests]:
        """Samples by label and digest, and digests by class."""
        labels = {name: label for label, name in enumerate(classes) if name is not None}
        ordered = sorted(self.items(), key=lambda item: (labels[item[1].name], item[0]))
        digests: dict[str, list[str]] = {name: [] for name in labels}
        for digest, photo in ordered:
            digests[photo.name].append(digest)
        features = [photo.features for _, photo in ordered]
        inputs = torch.stack(features) if features else like.inputs[:0]
        targets = torch.tensor([labels[photo.name] for _, photo in ordered], dtype=torch.int64)
        return Samples(inputs, targets), {name: tuple(found) for name, found in digests.items()}


def _refitted(bundle: Bundle, state: ModelState, note: str, device: torch.device, known: Known | None = None) -> Step:
    """The model with one more step: the classifier that follows from the features of a state, in order."""
    samples, num_labels, before = state.exemplars, len(state.classes), bundle.state
    strength, known_gram = known or (None, None)
    gram = changed_gram(before, samples, state.trained, state.classes, known_gram)
    backbone = backbone_weights(before)
    fitted = fit_classifier(bundle.spec, samples, num_labels, backbone, device, gram, strength=strength)
    spec, method = fitted.spec, fitted.method
    weights = weights_to_store(method, len(samples), before=before)
    state = dataclasses.replace(state, weights=weights, strength=fitted.strength, method=spec.method)
    result = evaluate_held_out(method, spec, state, before if known else None)
    added = tuple(name for name in state.class_names if name not in before.class_names)
    entry = HistoryEntry(when=utc_now(), added=added, accuracy=result.accuracy, by_class=result.by_class, note=note)
    return Step(dataclasses.replace(bundle, spec=spec).with_step(entry, result.apply(state)), method)


def require_closed_form(bundle: Bundle) -> None:
    """Refuse a model whose photos cannot be changed one by one.

    Args:
        bundle: the model.

    Raises:
        UserError: if its classifier is not in closed form, or it keeps no features.

    Example:
        >>> from upcl.model.bundle import ModelSpec
        >>> require_closed_form(Bundle(ModelSpec("upcl", {}, "small", 3, 8, (0.5,), (0.2,), "1"), (), {}))
        Traceback (most recent call last):
        upcl.core.errors.UserError: this needs a classifier in closed form on frozen features, ...
    """
    if not is_closed_form(bundle.spec):
        raise UserError(
            "this needs a classifier in closed form on frozen features, the default of `upcl learn` with "
            "upcl[photos] installed; this model was trained"
        )
    require_features(bundle)
