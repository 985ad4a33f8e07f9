"""Evaluation on held-out images, compared with values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.model.known_method import SPEC, known_method, known_state, samples
from upcl.core.types import Samples
from upcl.model import evaluation
from upcl.model.calibration import UNCALIBRATED, fit_temperature
from upcl.model.evaluation import evaluate_held_out
from upcl.model.predictor import Predictions, Predictor

# The largest pixel is the class by the nearest mean. By the head it is, too, in the order (0, 1, 2).
HELD_OUT = samples([(8, 1, 0), (7, 2, 1), (1, 8, 0), (9, 8, 0), (3, 0, 4), (0, 1, 5)], [0, 0, 1, 1, 1, 2])
# correct by the nearest mean:                  yes        yes        yes        no         no         yes


def test_accuracy_by_reading_and_by_class() -> None:
    result = evaluate_held_out(known_method((1, 0, 2)), SPEC, known_state(HELD_OUT))
    # By the head, the first two pixels are exchanged: (8,1,0) -> dog, (7,2,1) -> dog, (1,8,0) -> cat, (9,8,0) -> dog.
    assert result.accuracy == {"head": pytest.approx(100 * 2 / 6), "nme": pytest.approx(100 * 4 / 6)}
    assert result.reading == "nme"
    assert result.by_class == {"cat": 100.0, "dog": pytest.approx(100 / 3), "owl": 100.0}


def test_by_class_uses_the_better_reading() -> None:
    # Exemplars of cat and dog are exchanged, so now the nearest mean is wrong and the head right.
    exemplars = samples([(0, 9, 0), (9, 0, 0), (0, 0, 9)], [0, 1, 2])
    result = evaluate_held_out(known_method(), SPEC, known_state(HELD_OUT, exemplars=exemplars))
    assert result.accuracy["head"] == pytest.approx(100 * 4 / 6) and result.accuracy["nme"] == pytest.approx(
        100 * 2 / 6
    )
    assert result.reading == "head" and result.by_class["cat"] == 100.0


def test_the_head_wins_a_tie_and_models_without_exemplars() -> None:
    assert evaluate_held_out(known_method(), SPEC, known_state(HELD_OUT)).reading == "head"
    result = evaluate_held_out(known_method((2, 0, 1)), SPEC, known_state(HELD_OUT, exemplars=samples([], [])))
    assert result.reading == "head"
    assert result.calibration.threshold == -1.0, "without exemplars nothing is unfamiliar"


def test_calibration_is_that_of_the_chosen_reading() -> None:
    calibration = evaluate_held_out(known_method((1, 0, 2)), SPEC, known_state(HELD_OUT)).calibration
    pixels = HELD_OUT.inputs.flatten(1)[:, :3].numpy().astype(np.float32)
    cosines = pixels / np.linalg.norm(pixels, axis=1, keepdims=True)
    assert calibration.num_images == 6
    assert calibration.threshold == pytest.approx(np.quantile(cosines.max(1), 0.05), abs=1e-6)
    assert calibration.temperature == pytest.approx(
        fit_temperature(torch.from_numpy(cosines), HELD_OUT.labels), rel=1e-4
    )


def test_many_images_and_classes_are_scored_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = evaluate_held_out(known_method((1, 0, 2)), SPEC, known_state(HELD_OUT))
    predict, sizes = Predictor.predict, []

    def counted(self: Predictor, images: torch.Tensor) -> Predictions:
        sizes.append(len(self.state.classes) * len(images))
        return predict(self, images)

    monkeypatch.setattr(Predictor, "predict", counted)
    monkeypatch.setattr(evaluation, "MAX_SCORES", 8)
    parts = evaluate_held_out(known_method((1, 0, 2)), SPEC, known_state(HELD_OUT))
    assert sizes == [6, 6, 6], "tables of images and classes"
    assert parts.accuracy == whole.accuracy and parts.by_class == whole.by_class
    assert parts.calibration.num_images == 2, "the first part"


def test_classes_without_held_out_images_have_no_accuracy() -> None:
    some = HELD_OUT[HELD_OUT.labels != 2]
    result = evaluate_held_out(known_method(), SPEC, known_state(some))
    assert result.by_class["owl"] is None and result.by_class["cat"] == 100.0
    removed = evaluate_held_out(known_method(), SPEC, known_state(some, classes=("cat", "dog", None)))
    assert set(removed.by_class) == {"cat", "dog"}


def test_without_held_out_images_nothing_is_claimed() -> None:
    nothing = Samples(HELD_OUT.inputs[:0], HELD_OUT.labels[:0])
    result = evaluate_held_out(known_method(), SPEC, known_state(nothing))
    assert result.accuracy == {} and result.by_class == {"cat": None, "dog": None, "owl": None}
    assert result.reading == "head" and result.calibration == UNCALIBRATED


def test_the_result_is_applied_to_the_state() -> None:
    state = known_state(HELD_OUT)
    result = evaluate_held_out(known_method((1, 0, 2)), SPEC, state)
    applied = result.apply(state)
    assert (applied.reading, applied.calibration) == ("nme", result.calibration)
    assert applied.held_out is state.held_out
