"""Calibration on held-out images: confidence that matches accuracy, and a threshold for "none of these"."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from scipy.optimize import minimize_scalar
from torch import Tensor

TARGET_FALSE_ALARM_RATE = 0.05  # share of familiar images for which "none of these" is accepted
MAX_FITTED = 2000  # images that a temperature is fitted to
MAX_GROUPS, GROUP_SIZE = 10, 50  # of images that confidence and accuracy are compared in: fewer would be noise
MIN_TEMPERATURE, MAX_TEMPERATURE = 1e-3, 1e3


@dataclass(frozen=True)
class Calibration:
    """How the scores of a model are turned into confidence.

    Attributes:
        temperature: divides the scores before the softmax.
        threshold: an image with a lower familiarity belongs to none of the classes.
        false_alarm_rate: measured share of held-out images of known classes that fall below such a threshold.
        num_images: number of held-out images that were used.
        calibration_error: expected calibration error on held-out images, measured with the temperature of others.
        auroc: how well familiarity separates known from unknown photos (area under the ROC curve), measured on classes
            that were left out; None if it was not measured.

    Example:
        >>> calibration = Calibration(temperature=2.0, threshold=0.4, false_alarm_rate=0.05, num_images=100)
        >>> confidence(torch.tensor([[2.0, 0.0]]), calibration.temperature)
        tensor([[0.7311, 0.2689]], dtype=torch.float64)
    """

    temperature: float
    threshold: float
    false_alarm_rate: float
    num_images: int
    calibration_error: float = 0.0
    auroc: float | None = None


UNCALIBRATED = Calibration(temperature=1.0, threshold=-1.0, false_alarm_rate=0.0, num_images=0)


def calibrate(
    scores: Tensor, labels: Tensor, familiarity: Tensor, reference: Tensor | None = None, auroc: float | None = None
) -> Calibration:
    """Calibrate a model on held-out images.

    Args:
        scores: scores of the held-out images (N x C); -inf for removed classes.
        labels: their classes (N).
        familiarity: their familiarity (N).
        reference: familiarity of other images of known classes, which the threshold is fitted to; by default, that of
            the held-out ones.
        auroc: as `Calibration` stores it.

    Returns:
        The calibration; `UNCALIBRATED` without images.

    Example:
        >>> scores = torch.tensor([[2.0, 0.0], [0.0, 2.0], [0.0, 2.0]])
        >>> calibrate(scores, torch.tensor([0, 1, 1]), torch.tensor([0.9, 0.8, 0.7])).num_images
        3
        >>> calibrate(torch.empty(0, 2), torch.empty(0).long(), torch.empty(0)) == UNCALIBRATED
        True
    """
    if not len(labels):
        return UNCALIBRATED
    if reference is None or not len(reference):
        threshold, false_alarm_rate = fit_threshold(familiarity), measure_false_alarm_rate(familiarity)
    else:
        threshold = fit_threshold(reference)
        false_alarm_rate = float((familiarity.double() < threshold).double().mean())
    return Calibration(
        temperature=fit_temperature(scores, labels),
        threshold=threshold,
        false_alarm_rate=false_alarm_rate,
        num_images=len(labels),
        calibration_error=measure_calibration_error(scores, labels),
        auroc=auroc,
    )


def fit_temperature(scores: Tensor, labels: Tensor) -> float:
    """Find the temperature with the least negative log-likelihood (Guo et al., 2017).

    As in Platt scaling, targets are smoothed to 1 - 1/(n + 2), so that n images that are all classified correctly still
    leave room for an error.

    Args:
        scores: scores of the held-out images (N x C); -inf for removed classes.
        labels: their classes (N).

    Returns:
        The temperature; 1 without images.

    Example:
        >>> scores = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> fit_temperature(10 * scores, torch.tensor([0, 1])) > fit_temperature(scores, torch.tensor([0, 1]))
        True
    """
    if not len(labels):
        return UNCALIBRATED.temperature
    step = -(-len(labels) // MAX_FITTED)
    scores, labels = scores[::step], labels[::step]
    present, smoothing = (scores != -torch.inf).any(0), 1 / (len(labels) + 2)
    exact, targets = scores[:, present].double(), (present.cumsum(0) - 1)[labels]

    def loss(power: float) -> float:
        return float(F.cross_entropy(exact / 10**power, targets, label_smoothing=smoothing))

    bounds = (float(torch.tensor(MIN_TEMPERATURE).log10()), float(torch.tensor(MAX_TEMPERATURE).log10()))
    return float(10 ** minimize_scalar(loss, bounds=bounds, method="bounded").x)


def fit_threshold(familiarity: Tensor) -> float:
    """Find the familiarity below which an image is "none of these": the 5 % quantile of held-out images.

    Args:
        familiarity: familiarity of held-out images of known classes (N).

    Returns:
        The threshold; -1, below every cosine, without images.

    Example:
        >>> round(fit_threshold(torch.linspace(0, 1, 101)), 6)
        0.05
    """
    if not len(familiarity):
        return UNCALIBRATED.threshold
    return float(familiarity.double().quantile(TARGET_FALSE_ALARM_RATE))


def measure_false_alarm_rate(familiarity: Tensor) -> float:
    """Measure how often a threshold rejects images of known classes.

    The images are split into halves, and each half is tested against the threshold of the other: an estimate on images
    that the threshold was not fitted to.

    Args:
        familiarity: familiarity of held-out images of known classes (N).

    Returns:
        The share of rejected images; 0 with fewer than two images.

    Example:
        >>> measure_false_alarm_rate(torch.tensor([0.1, 0.9, 0.9, 0.9]))
        0.25
    """
    if len(familiarity) < 2:
        return UNCALIBRATED.false_alarm_rate
    halves = familiarity[::2], familiarity[1::2]
    alarms = sum(int((half < fit_threshold(other)).sum()) for half, other in (halves, halves[::-1]))
    return alarms / len(familiarity)


def measure_calibration_error(scores: Tensor, labels: Tensor) -> float:
    """Measure by how much confidence and accuracy differ (expected calibration error).

    The images are split into halves, and each half gets the temperature of the other. Images are sorted by confidence
    into groups of equal size, at most ten; the error is the mean difference between confidence and accuracy of a group.

    Args:
        scores: scores of held-out images (N x C); -inf for removed classes.
        labels: their classes (N).

    Returns:
        The error, from 0 to 1; 0 with fewer than two images.

    Example:
        >>> scores = torch.tensor([[2.0, 0.0], [0.0, 2.0]]).repeat(20, 1)
        >>> measure_calibration_error(scores, torch.tensor([0, 1]).repeat(20)) < 0.05
        True
    """
    if len(labels) < 2:
        return UNCALIBRATED.calibration_error
    halves = torch.arange(len(labels)) % 2 == 0
    sure, correct = torch.empty(len(labels), dtype=torch.float64), scores.argmax(1) == labels
    for half in (halves, ~halves):
        sure[half] = confidence(scores[half], fit_temperature(scores[~half], labels[~half])).max(1).values
    difference = (sure - correct.double())[sure.argsort(stable=True)]
    groups = difference.tensor_split(min(MAX_GROUPS, max(1, len(labels) // GROUP_SIZE)))
    return float(sum(group.sum().abs() for group in groups) / len(labels))


def confidence(scores: Tensor, temperature: float) -> Tensor:
    """Turn scores into calibrated probabilities, computed in double precision.

    Args:
        scores: scores (N x C); -inf gives a probability of exactly 0.
        temperature: the fitted temperature.

    Example:
        >>> confidence(torch.tensor([[1.0, 1.0, -torch.inf]]), temperature=2.0)
        tensor([[0.5000, 0.5000, 0.0000]], dtype=torch.float64)
    """
    return (scores.double() / temperature).softmax(1)
