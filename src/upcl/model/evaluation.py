"""Evaluation of a model on its held-out images: accuracy, the better reading, and calibration."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from upcl.methods import Method

from .bundle import ModelSpec, ModelState
from .calibration import UNCALIBRATED, Calibration, calibrate
from .closed_form import is_closed_form
from .familiarity import (
    cross_validated_familiarity,
    familiarity_of,
    fit_familiarity,
    left_out_auroc,
    spread_of,
    without_familiarity,
)
from .predictor import Predictor

MAX_SCORES = 2**23  # in one table of images and classes


@dataclass(frozen=True)
class HeldOutResult:
    """How well a model does on its held-out images.

    Attributes:
        reading: the more accurate reading, `head` or `nme`; `head` if they tie, if there are no exemplars, or if the
            classifier is in closed form and was chosen by cross-validation.
        calibration: of that reading.
        by_class: accuracy of each class by that reading, in percent; None for a class without held-out images.
        accuracy: accuracy by reading, in percent; empty without held-out images.
        familiarity: what `fit_familiarity` computed, if the model works on features.

    Example:
        >>> from upcl.core.types import NO_SAMPLES
        >>> state = ModelState({}, growth=(2,), classes=("cat", "dog"), exemplars=NO_SAMPLES, held_out=NO_SAMPLES)
        >>> HeldOutResult(reading="nme", accuracy={"head": 80.0, "nme": 90.0}).apply(state).reading
        'nme'
    """

    reading: str = "head"
    calibration: Calibration = UNCALIBRATED
    by_class: dict[str, float | None] = field(default_factory=dict)
    accuracy: dict[str, float | None] = field(default_factory=dict)
    familiarity: dict[str, Tensor] = field(default_factory=dict)

    def apply(self, state: ModelState) -> ModelState:
        """Return the state with this reading, calibration and familiarity.

        Args:
            state: the state that was evaluated.
        """
        weights = {**without_familiarity(state.weights), **self.familiarity}
        return replace(state, weights=weights, reading=self.reading, calibration=self.calibration)


def evaluate_held_out(
    method: Method[Any], spec: ModelSpec, state: ModelState, before: ModelState | None = None
) -> HeldOutResult:
    """Evaluate a model on its held-out images.

    Accuracy and calibration are measured on the same images, and the better of two readings is chosen by them, so with
    few images the estimates are slightly optimistic. With thousands of classes, calibration uses a part of the images.

    Args:
        method: the method with the weights of the state.
        spec: what the model was created with.
        state: the state; its reading and calibration are not used.
        before: a state that differs in a few photos only, so that its calibration and its spread within classes can be
            used; by default they are measured.

    Example:
        >>> import numpy as np
        >>> from upcl import GrowingClassifier
        >>> images = np.random.default_rng(0).integers(0, 256, (20, 8, 8), dtype=np.uint8)
        >>> predictor = GrowingClassifier(epochs=1).fit(images, ["cat", "dog"] * 10).learner_.predictor
        >>> result = evaluate_held_out(predictor.method, predictor.spec, predictor.state)
        >>> list(result.by_class), result.calibration.num_images
        (['cat', 'dog'], 4)
    """
    held_out, num_labels = state.held_out, len(state.classes)
    familiarity = {}
    if spec.features and len(state.exemplars):
        familiarity = fit_familiarity(state.exemplars, num_labels, spread_of(before.weights) if before else None)
    elif is_closed_form(spec):  # no features are kept, but sums
        familiarity = familiarity_of(method.net.head.statistics)
    if not len(held_out):
        return HeldOutResult(by_class=dict.fromkeys(state.class_names), familiarity=familiarity)
    state = HeldOutResult(familiarity=familiarity).apply(state)
    predictor = Predictor(method, spec, state)
    step = -(-len(held_out) * num_labels // MAX_SCORES)
    predictions = predictor.predict(held_out.inputs[::step])  # all of them, unless images and classes are many
    correct = {name: torch.empty(len(held_out), dtype=torch.bool) for name in predictions.scores}
    for offset in range(step):
        part = held_out[offset::step]
        found = predictor.predict(part.inputs) if offset else predictions
        for name, scores in found.scores.items():
            correct[name][offset::step] = scores.argmax(1) == part.labels
    if is_closed_form(spec):  # the only reading that it uses
        del correct["nme"]
    accuracy = {name: _percent(hits) for name, hits in correct.items()}
    head_only = bool(predictor.scoring.without_mean.all())
    reading = "head" if head_only else max(accuracy, key=lambda name: accuracy[name] or 0.0)
    rows = held_out.rows_by_class(num_labels)
    by_class = {
        name: _percent(correct[reading][rows[label]]) for label, name in enumerate(state.classes) if name is not None
    }
    if before:
        return HeldOutResult(reading, before.calibration, by_class, accuracy, familiarity)
    reference, auroc = None, None
    if len(state.exemplars) and familiarity:
        names = {label: name for label, name in enumerate(state.classes) if name is not None}
        reference = cross_validated_familiarity(state.exemplars, num_labels, familiarity)
        auroc = left_out_auroc(state.exemplars, held_out, names, familiarity)
    labels = held_out.labels[::step]
    calibration = calibrate(predictions.scores[reading], labels, predictions.familiarity, reference, auroc)
    return HeldOutResult(reading, calibration, by_class, accuracy, familiarity)


def _percent(correct: Tensor) -> float | None:
    return 100 * float(correct.float().mean()) if len(correct) else None
