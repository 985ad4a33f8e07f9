"""Sums over features that a model stores."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.model.feature_models import CPU, grow, spec
from upcl.model.stored_sums import GRAM, changed_gram, stored_statistics


def test_the_gram_matrix_follows_the_photos_that_come_and_go() -> None:
    one, other = (grow(None, {"ant": photos, "bull": range(3)}).state for photos in (range(5), range(2, 9)))
    exact = [F.normalize(state.exemplars.inputs.float()).double() for state in (one, other)]
    grams = [rows.T @ rows for rows in exact]
    found = changed_gram(one, other.exemplars, other.trained, other.classes, grams[0])
    assert found is not None and torch.allclose(found, grams[1], atol=1e-9)


def test_sums_are_stored_for_models_without_features() -> None:
    state = grow(None, {"ant": range(5), "bull": range(3)}, None, spec(keep="none")).state
    assert stored_statistics(state, CPU).counts.tolist() == [5, 3] and GRAM in state.weights
