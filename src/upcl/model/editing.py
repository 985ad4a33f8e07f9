"""Changes of a model without a folder of photos: rename and merge classes, move and remove single photos."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import TypeVar

import torch

from upcl.core.errors import UserError, unknown_choice

from .bundle import Bundle
from .photo_changes import UNKNOWN_PHOTO, PhotoChange, change_photos, require_closed_form
from .quick_steps import stored_known

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
        >>> from upcl.model.bundle import HistoryEntry, ModelSpec, ModelState
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
            note=_renamed_note(entry.note, name, new),
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
    require_closed_form(bundle)
    if _require_class(bundle, name) == _require_class(bundle, into):
        raise UserError(f"'{name}' cannot be merged with itself")
    digests = (*bundle.state.trained.get(name, ()), *bundle.state.tested.get(name, ()))
    changes = [PhotoChange(digest, into) for digest in digests]
    note = f"merged '{name}' into '{into}'"
    return change_photos(bundle, changes, note, device, stored_known(bundle, device), decide=True).bundle


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
    _require_class(bundle, name)
    before = _class_of_photo(bundle, digest)
    if before == name:
        raise UserError(f"the photo is known as '{name}' already")
    note = f"moved a photo from '{before}' to '{name}'"
    changes, known = [PhotoChange(digest, name)], stored_known(bundle, device)
    return change_photos(bundle, changes, note, device, known, decide=True).bundle, before


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
    name = _class_of_photo(bundle, digest)
    if (*bundle.state.trained.get(name, ()), *bundle.state.tested.get(name, ())) == (digest,):
        raise UserError(f"it is the only photo of '{name}': use `upcl forget --class '{name}'`")
    note = f"removed a photo of '{name}'"
    step = change_photos(bundle, [PhotoChange(digest, None)], note, device, decide=True)
    return step.bundle.without_earlier_states(), name


def _renamed_note(note: str, name: str, new: str) -> str:
    """A remark with another name: in quotes, or as a word, as older versions wrote it."""
    pattern = re.escape(f"'{name}'") if "'" in note else rf"(?<!\w){re.escape(name)}(?!\w)"
    replacement = f"'{new}'" if "'" in note else new
    return re.sub(pattern, lambda _: replacement, note)


def _class_of_photo(bundle: Bundle, digest: str) -> str:
    require_closed_form(bundle)
    for found in (bundle.state.trained, bundle.state.tested):
        for name, digests in found.items():
            if digest in digests:
                return name
    raise UserError(UNKNOWN_PHOTO)


def _require_class(bundle: Bundle, name: str) -> int:
    if name not in bundle.state.class_names:
        raise unknown_choice("class", name, bundle.state.class_names)
    return bundle.state.classes.index(name)
