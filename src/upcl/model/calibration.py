"""From scores to words people can act on: confidence that is as large as it is right, and "none of these"."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from scipy.optimize import minimize_scalar
from torch import Tensor

FALSE_ALARMS = 0.05  # share of familiar images that "none of these" may hit
LOWEST, HIGHEST = 1e-3, 1e3  # of a temperature


@dataclass(frozen=True)
class Calibration:
    """How a model's scores are read.

    `temperature` divides them before the softmax. An image whose familiarity is below `threshold` is none of the
    classes; `false_alarm_rate` is its measured rate on held-out images of known classes.
    """

    temperature: float
    threshold: float
    false_alarm_rate: float
    num_images: int


def calibrate(scores: Tensor, labels: Tensor, familiarity: Tensor) -> Calibration:
    """From held-out images: scores (N x C), labels and familiarity (N)."""
    return Calibration(
        temperature=fit_temperature(scores, labels),
        threshold=quantile(familiarity),
        false_alarm_rate=measured_false_alarm_rate(familiarity),
        num_images=len(labels),
    )


def fit_temperature(scores: Tensor, labels: Tensor) -> float:
    """The temperature of least negative log-likelihood; 1 without images.

    As in Platt's scaling, n images that are all named right leave room for a wrong one: targets are 1 - 1/(n + 2).
    """
    if not len(labels):
        return 1.0
    known, wrong = (scores != -torch.inf).any(0), 1 / (len(labels) + 2)
    exact, places = scores[:, known].double(), (known.cumsum(0) - 1)[labels]

    def loss(power: float) -> float:
        return float(F.cross_entropy(exact / 10**power, places, label_smoothing=wrong))

    bounds = (float(torch.tensor(LOWEST).log10()), float(torch.tensor(HIGHEST).log10()))
    return float(10 ** minimize_scalar(loss, bounds=bounds, method="bounded").x)


def quantile(familiarity: Tensor) -> float:
    return float(familiarity.double().quantile(FALSE_ALARMS)) if len(familiarity) else -1.0


def measured_false_alarm_rate(familiarity: Tensor) -> float:
    """Each half judged by the threshold of the other: an honest rate, not the one the threshold was made for."""
    if len(familiarity) < 2:
        return 0.0
    halves = familiarity[::2], familiarity[1::2]
    alarms = sum(int((mine < quantile(other)).sum()) for mine, other in (halves, halves[::-1]))
    return alarms / len(familiarity)


def confidence(scores: Tensor, temperature: float) -> Tensor:
    return (scores.double() / temperature).softmax(1)
