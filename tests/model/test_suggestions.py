"""Which photos to label next."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from upcl.model.suggestions import CENTRING, suggest_photos


def make_photos(num: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num, 6, generator=generator), torch.rand(num, generator=generator)


def naive(features: Tensor, uncertainty: Tensor, labelled: Tensor, num: int) -> list[tuple[int, float]]:
    """The definition, with a loop over photos."""
    centre = CENTRING * F.normalize(features).mean(0)

    def cosine(one: Tensor, other: Tensor) -> float:
        return max(
            0.0, float(torch.cosine_similarity(F.normalize(one, dim=0) - centre, F.normalize(other, dim=0) - centre, 0))
        )

    spoken_for = [max((cosine(photo, other) for other in labelled), default=0.0) for photo in features]
    chosen: list[tuple[int, float]] = []
    for _ in range(num):
        gains = {}
        for i, photo in enumerate(features):
            if i not in dict(chosen):
                terms = (max(0.0, cosine(photo, other) - spoken_for[j]) for j, other in enumerate(features))
                gains[i] = sum(float(u) * term for u, term in zip(uncertainty, terms, strict=True))
        best = max(gains, key=lambda i: gains[i])
        chosen.append((best, gains[best]))
        spoken_for = [max(s, cosine(features[best], other)) for s, other in zip(spoken_for, features, strict=True)]
    return chosen


@pytest.mark.parametrize("num_labelled", [0, 3])
def test_suggestions_equal_the_definition(num_labelled: int) -> None:
    features, uncertainty = make_photos(15)
    labelled = make_photos(num_labelled, seed=1)[0]
    found = suggest_photos(features, uncertainty, labelled, num=5)
    expected = naive(features, uncertainty, labelled, num=5)
    assert [suggestion.row for suggestion in found] == [row for row, _ in expected]
    assert [suggestion.gain for suggestion in found] == pytest.approx([gain for _, gain in expected], abs=1e-4)
    gains = [suggestion.gain for suggestion in found]
    assert gains == sorted(gains, reverse=True)


def test_a_photo_whose_likeness_has_a_label_gains_nothing() -> None:
    features, uncertainty = make_photos(10)
    found = suggest_photos(features, uncertainty, features[[4]], num=10)
    assert len(found) == 10 and {suggestion.row for suggestion in found} == set(range(10))
    gain = {suggestion.row: suggestion.gain for suggestion in found}
    assert gain[4] == pytest.approx(min(gain.values()), abs=1e-5)


def test_certain_photos_gain_nothing() -> None:
    features, _ = make_photos(6)
    assert all(found.gain == 0 for found in suggest_photos(features, torch.zeros(6), torch.empty(0, 6), num=3))
    assert suggest_photos(torch.empty(0, 6), torch.empty(0), torch.empty(0, 6), num=3) == []


def test_of_many_photos_the_most_uncertain_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upcl.model.suggestions.MAX_PHOTOS", 4)
    features, uncertainty = make_photos(12)
    found = suggest_photos(features, uncertainty, torch.empty(0, 6), num=10)
    assert {suggestion.row for suggestion in found} == set(uncertainty.topk(4).indices.tolist())
