"""From features to scores, confidence and familiarity: the one place that computes them, for `predict` and `export`."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from upcl.core.memory import class_means, nearest_mean_scores
from upcl.methods import Method

from .bundle import ModelState
from .calibration import confidence
from .familiarity import PREFIX, Familiarity


class Scores(NamedTuple):
    """What a model computes from the features of N images.

    Attributes:
        head: scores by the head (N x C); -inf for removed classes.
        nme: scores by the nearest mean of exemplars (N x C), cosines: -1 for classes without exemplars, -inf for
            removed classes.
        confidence: calibrated probabilities (N x C) by the model's reading, in double precision.
        familiarity: the largest cosine to a class (N): to its mean, or as `Familiarity` measures it on features.

    Example:
        >>> head, cosines = torch.tensor([[2.0, 0.0, -torch.inf]]), torch.tensor([[0.9, 0.1, -torch.inf]])
        >>> scores = Scores(head, cosines, confidence(head, temperature=1.0), cosines.max(1).values)
        >>> scores.confidence  # the third class was removed
        tensor([[0.8808, 0.1192, 0.0000]], dtype=torch.float64)
    """

    head: Tensor
    nme: Tensor
    confidence: Tensor
    familiarity: Tensor


class Scoring(nn.Module):
    """Maps backbone features (N x d) to `Scores`.

    Args:
        method: the method with the weights of the model; it defines how its head is read.
        state: classes, reading and calibration of the model.
        exemplar_features: features of `state.exemplars` (M x d), as the method extracts them.

    Example:
        >>> import numpy as np
        >>> from upcl import GrowingClassifier
        >>> images = np.random.default_rng(0).integers(0, 256, (8, 8, 8), dtype=np.uint8)
        >>> learner = GrowingClassifier(epochs=1).fit(images, ["cat", "dog"] * 4).learner_
        >>> predictor = learner.predictor
        >>> exemplars = predictor.method.extract(predictor.state.exemplars)
        >>> scores = Scoring(predictor.method, predictor.state, exemplars)(exemplars)
        >>> scores.confidence.shape, scores.familiarity.shape
        (torch.Size([8, 2]), torch.Size([8]))
    """

    means: Tensor
    removed: Tensor
    without_mean: Tensor

    def __init__(self, method: Method[Any], state: ModelState, exemplar_features: Tensor) -> None:
        super().__init__()
        self.method, self.net = method, method.net
        self.reading, self.temperature = state.reading, state.calibration.temperature
        labels = state.exemplars.labels.to(exemplar_features.device)
        means = class_means(exemplar_features, labels, len(state.classes))
        removed = torch.tensor([name is None for name in state.classes], device=means.device)
        fitted = any(name.startswith(PREFIX) for name in state.weights)
        self.familiarity = Familiarity(state.weights).to(means.device) if fitted else None
        self.register_buffer("means", means)
        self.register_buffer("removed", removed)
        self.register_buffer("without_mean", removed | (means.norm(dim=1) == 0))

    def forward(self, features: Tensor) -> Scores:
        """Score images by both readings.

        Args:
            features: backbone features (N x d).
        """
        cosines = nearest_mean_scores(features, self.means).masked_fill(self.without_mean, -1.0)
        head = self.method.scores(features).masked_fill(self.removed, -torch.inf)
        nme = cosines.masked_fill(self.removed, -torch.inf)
        sure = confidence(head if self.reading == "head" else nme, self.temperature)
        resemblance = cosines if self.familiarity is None else self.familiarity(features)
        return Scores(head, nme, sure, resemblance.max(1).values)
