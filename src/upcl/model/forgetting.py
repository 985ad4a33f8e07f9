"""Removal of a class: its name, images, statistics and row of the head, and every state that still has them."""

from __future__ import annotations

import dataclasses
from collections.abc import Set
from typing import Any

from upcl.methods import Method

from .bundle import Bundle, HistoryEntry, ModelState
from .closed_form import fit_classifier, is_closed_form, require_features
from .evaluation import evaluate_held_out
from .extractor import backbone_weights
from .spec import copy_weights
from .stored_sums import changed_gram, weights_to_store
from .update import utc_now

REMOVED = "(removed)"


def forget_class(bundle: Bundle, name: str, method: Method[Any]) -> Bundle:
    """Remove a class from a model. Other labels stay as they are.

    A classifier in closed form is then the one that would have been computed without the class. Otherwise, what the
    backbone learned from its images remains.

    Args:
        bundle: the model.
        name: name of a class that it knows.
        method: the method with the weights of the last state; its head is changed.

    Raises:
        UserError: if the model keeps no features of its photos.

    Returns:
        The model with one more step, and with no earlier state, since those still have the class.

    Example:
        >>> import numpy as np
        >>> from upcl import GrowingClassifier
        >>> images = np.random.default_rng(0).integers(0, 256, (8, 8, 8), dtype=np.uint8)
        >>> learner = GrowingClassifier(epochs=1).fit(images, ["cat", "dog"] * 4).learner_
        >>> bundle = forget_class(learner.require_bundle(), "cat", learner.predictor.method)
        >>> bundle.state.classes, bundle.history[-1].note
        ((None, 'dog'), 'a class was removed')
    """
    require_features(bundle)
    label = bundle.state.classes.index(name)
    state, spec = _without_class(bundle.state, label, name), bundle.spec
    if is_closed_form(spec):  # exactly as if the class had never been learned
        backbone, device = backbone_weights(state), method.setting.device
        gram = changed_gram(bundle.state, state.exemplars, state.trained, state.classes)
        spec, method, _, strength = fit_classifier(spec, state.exemplars, len(state.classes), backbone, device, gram)
        weights = weights_to_store(method, len(state.exemplars), before=bundle.state)
        state = dataclasses.replace(state, weights=weights, strength=strength, method=spec.method)
    else:
        method.net.head.forget(label)
        state = dataclasses.replace(state, weights=copy_weights(method))
    result = evaluate_held_out(method, spec, state)
    entry = HistoryEntry(when=utc_now(), accuracy=result.accuracy, by_class=result.by_class, note="a class was removed")
    named = {other for entry in bundle.history for other in (*entry.added, *entry.extra, *entry.by_class)}
    gone = {name, *named}.difference(state.class_names)  # also those that were merged into others
    history = tuple(_without_names(entry, gone) for entry in bundle.history)
    states = {len(history): result.apply(state)}
    return dataclasses.replace(bundle, spec=spec, history=(*history, entry), states=states)


def _without_class(state: ModelState, label: int, name: str) -> ModelState:
    return dataclasses.replace(
        state,
        classes=tuple(None if other == name else other for other in state.classes),
        exemplars=state.exemplars[state.exemplars.labels != label],
        held_out=state.held_out[state.held_out.labels != label],
        trained={key: value for key, value in state.trained.items() if key != name},
        tested={key: value for key, value in state.tested.items() if key != name},
        assigned=state.assigned.difference(state.trained.get(name, ()), state.tested.get(name, ())),
    )


def _without_names(entry: HistoryEntry, gone: Set[str]) -> HistoryEntry:
    return dataclasses.replace(
        entry,
        added=tuple(REMOVED if name in gone else name for name in entry.added),
        extra={name: num for name, num in entry.extra.items() if name not in gone},
        by_class={name: value for name, value in entry.by_class.items() if name not in gone},
        note="" if any(name in entry.note for name in gone) else entry.note,
    )
