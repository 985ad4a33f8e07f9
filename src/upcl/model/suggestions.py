"""Which of many photos without a label would teach a model most: uncertain ones that stand for many others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

MAX_PHOTOS = 5000  # that are compared with each other: the most uncertain ones
CENTRING = 0.7  # part of the mean that is subtracted from unit features before they are compared
CHUNK = 1024


@dataclass(frozen=True)
class Suggestion:
    """A photo to label next.

    Attributes:
        row: position of the photo.
        gain: expected number of wrong answers among all these photos that its label speaks for, beyond those that
            labelled photos and earlier suggestions speak for.

    Example:
        >>> Suggestion(row=7, gain=3.4).gain
        3.4
    """

    row: int
    gain: float


def suggest_photos(features: Tensor, uncertainty: Tensor, labelled: Tensor, num: int) -> list[Suggestion]:
    """Choose photos to label.

    A label speaks for a photo by the cosine between the two. Greedily, the photo is chosen whose label speaks for most
    of what is uncertain and not spoken for: the facility location problem, with the probability that an answer is wrong
    as weight. So suggestions are uncertain, typical, and unlike each other.

    Args:
        features: features of photos without a label (N x d), of any length.
        uncertainty: probability that the model's answer is wrong, for each of them (N).
        labelled: features of photos that have a label (M x d).
        num: number of suggestions, if there are as many photos.

    Returns:
        The suggestions, the largest gain first.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [-1.0, 0.0]])
        >>> uncertainty = torch.tensor([0.5, 0.5, 0.1, 0.4])
        >>> [suggestion.row for suggestion in suggest_photos(features, uncertainty, torch.empty(0, 2), num=2)]
        [0, 3]
    """
    rows = uncertainty.argsort(descending=True, stable=True)[:MAX_PHOTOS]
    if not len(rows):
        return []
    centre = CENTRING * F.normalize(features.float()).mean(0)
    photos = F.normalize(F.normalize(features[rows].float()) - centre)
    weight = uncertainty[rows].float()
    likeness = (photos @ photos.T).clamp(min=0)
    spoken_for = torch.zeros(len(rows))
    for part in labelled.split(CHUNK) if len(labelled) else ():
        known = F.normalize(F.normalize(part.float()) - centre)
        spoken_for = torch.maximum(spoken_for, (photos @ known.T).max(1).values)
    found = list[Suggestion]()
    left = torch.ones(len(rows), dtype=torch.bool)
    for _ in range(min(num, len(rows))):
        gains = ((likeness - spoken_for).clamp(min=0) @ weight).masked_fill(~left, -1)
        best = int(gains.argmax())
        found.append(Suggestion(int(rows[best]), float(gains[best])))
        left[best] = False
        spoken_for = torch.maximum(spoken_for, likeness[best])
    return found
