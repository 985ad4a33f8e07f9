"""A model asked about images: scores, how familiar they look, and names people can act on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.core.memory import class_means
from upcl.core.types import Samples
from upcl.methods import Method

from .bundle import ModelState
from .calibration import confidence

NONE_OF_THESE = "none of these"


@dataclass(frozen=True)
class Prediction:
    """What an image shows: names with confidence, the likeliest first, and whether it is like anything learned."""

    names: tuple[str, ...]
    confidence: tuple[float, ...]
    familiarity: float
    known: bool

    @property
    def name(self) -> str:
        return self.names[0] if self.known else NONE_OF_THESE


@dataclass(frozen=True, eq=False)
class Predictions:
    """Images through a model's eyes.

    `scores` by reading (N x C) are -inf for forgotten classes; `familiarity` (N) is the largest cosine to a class's
    mean exemplar; `unit` are the features (N x d), of length one.
    """

    unit: Tensor
    scores: dict[str, Tensor]
    familiarity: Tensor


class Predictor:
    """A model ready to be asked: its method with the weights in, and where its exemplars lie."""

    @torch.no_grad()
    def __init__(self, method: Method[Any], state: ModelState) -> None:
        self.method, self.state = method, state
        device, labels = method.setting.device, state.exemplars.labels
        features = method.extract(state.exemplars)
        self.exemplars = F.normalize(features).cpu()
        self.means = class_means(features, labels.to(device), len(state.classes))
        self.gone = torch.tensor([name is None for name in state.classes], device=device)
        self.missing = self.gone | (self.means.norm(dim=1) == 0)  # classes without exemplars

    @torch.no_grad()
    def look(self, images: Tensor) -> Predictions:
        """At uint8 images (N x C x size x size)."""
        features = self.method.extract(Samples(images, torch.zeros(len(images), dtype=torch.int64)))
        unit = F.normalize(features)
        cosines = (unit @ self.means.T).masked_fill(self.missing, -1.0)
        scores = {"head": self.method.scores(features), "nme": cosines}
        return Predictions(
            unit=unit.cpu(),
            scores={name: value.masked_fill(self.gone, -torch.inf).cpu() for name, value in scores.items()},
            familiarity=cosines.max(1).values.cpu(),
        )

    def confidence(self, seen: Predictions) -> Tensor:
        """Calibrated, by the reading that did better on held-out images (N x C)."""
        return confidence(seen.scores[self.state.reading], self.state.calibration.temperature)

    def answers(self, seen: Predictions, top: int) -> list[Prediction]:
        classes, calibration = self.state.classes, self.state.calibration
        values, places = self.confidence(seen).topk(min(top, int((~self.gone).sum())), 1)
        return [
            Prediction(
                names=tuple(str(classes[k]) for k in row.tolist()),
                confidence=tuple(value.tolist()),
                familiarity=float(near),
                known=float(near) >= calibration.threshold,
            )
            for row, value, near in zip(places, values, seen.familiarity, strict=True)
        ]
