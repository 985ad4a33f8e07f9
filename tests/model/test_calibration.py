from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from upcl.model.calibration import (
    UNCALIBRATED,
    calibrate,
    confidence,
    fit_temperature,
    measure_calibration_error,
    measure_false_alarm_rate,
)


def test_temperature_makes_confidence_match_accuracy() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4000, 5, generator=generator)
    labels = logits.softmax(1).multinomial(1, generator=generator)[:, 0]
    temperature = fit_temperature(10 * logits, labels)
    assert temperature == pytest.approx(10, rel=0.1)
    best = confidence(10 * logits, temperature).max(1)
    assert float(best.values.mean()) == pytest.approx(float((best.indices == labels).double().mean()), abs=0.02)


def test_temperature_has_the_least_smoothed_loss_of_a_fine_grid() -> None:
    generator = torch.Generator().manual_seed(1)
    scores, labels = 3 * torch.randn(30, 4, generator=generator), torch.arange(30) % 4
    scores[torch.arange(30), labels] += 2
    grid = torch.logspace(-3, 3, 6001, dtype=torch.float64)
    losses = [float(F.cross_entropy(scores.double() / t, labels, label_smoothing=1 / 32)) for t in grid]
    assert fit_temperature(scores, labels) == pytest.approx(float(grid[int(torch.tensor(losses).argmin())]), rel=0.01)


def test_confidence_leaves_room_for_errors_that_were_not_seen() -> None:
    scores, labels = torch.eye(3).repeat(8, 1), torch.arange(3).repeat(8)
    best = confidence(scores, fit_temperature(scores, labels)).max(1).values
    assert 0.9 < best.min() <= best.max() < 0.99, "24 correct predictions do not justify 100 %"


def test_removed_classes_do_not_change_the_temperature() -> None:
    scores, labels = torch.eye(3).repeat(8, 1), torch.arange(3).repeat(8)
    removed = torch.cat([scores, torch.full((24, 1), -torch.inf)], 1)
    assert fit_temperature(removed, labels) == pytest.approx(fit_temperature(scores, labels))
    assert confidence(removed, 1.0)[:, 3].tolist() == [0.0] * 24


def test_false_alarm_rate_is_measured_on_images_that_the_threshold_was_not_fitted_to() -> None:
    familiarity = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    found = calibrate(torch.zeros(1000, 2), torch.zeros(1000, dtype=torch.int64), familiarity)
    assert found.threshold == pytest.approx(float(familiarity.sort().values[49:51].mean()), abs=1e-3)
    assert 0.02 < found.false_alarm_rate < 0.09
    # Halves (0.1, 0.5, 0.9) and (0.2, 0.6, 1.0): their 5 % quantiles are 0.14 and 0.24, so only 0.1 is rejected.
    assert measure_false_alarm_rate(torch.tensor([0.1, 0.2, 0.5, 0.6, 0.9, 1.0])) == pytest.approx(1 / 6)


def test_without_images_nothing_is_calibrated_and_nothing_rejected() -> None:
    empty = torch.empty(0)
    assert calibrate(torch.empty(0, 3), empty.long(), empty) == UNCALIBRATED
    assert UNCALIBRATED.threshold <= -1, "no cosine is below it"


def test_a_reference_sets_the_threshold_and_held_out_images_measure_it() -> None:
    scores, labels = torch.eye(2).repeat(5, 1), torch.tensor([0, 1] * 5)
    familiarity = torch.linspace(0.1, 1.0, 10)
    calibration = calibrate(scores, labels, familiarity, reference=torch.full((50,), 0.35), auroc=0.9)
    assert calibration.threshold == pytest.approx(0.35) and calibration.auroc == 0.9
    assert calibration.false_alarm_rate == pytest.approx(0.3)


def test_the_calibration_error_is_large_if_confidence_does_not_follow_accuracy() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 4, (400,), generator=generator)
    sure = F.one_hot(labels, 4) * 5.0  # always right
    assert measure_calibration_error(sure, labels) < 0.02
    strength = torch.cat([torch.full((200,), 1.0), torch.full((200,), 9.0)])
    predicted = torch.where(strength > 5, torch.randint(0, 4, (400,), generator=generator), labels)
    misleading = F.one_hot(predicted, 4) * strength[:, None]  # the larger the score, the worse
    assert measure_calibration_error(misleading, labels) > 0.2
    assert measure_calibration_error(sure[:1], labels[:1]) == 0
