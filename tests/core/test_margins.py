"""Margins."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.specification import COUNTS, LABELS
from upcl.core.losses import log_prior
from upcl.core.margins import Margin, bounded_log_prior, margin_logits, target_margin


def test_target_margin_lowers_the_target_only() -> None:
    assert target_margin(torch.tensor([2, 0]), 3, 0.5).tolist() == [[0, 0, -0.5], [-0.5, 0, 0]]
    by_class = target_margin(torch.tensor([2, 0]), 3, torch.tensor([0.25, 1.0, 0.5]))
    assert by_class.tolist() == [[0, 0, -0.5], [-0.25, 0, 0]]


def test_margin_logits_of_every_kind() -> None:
    log_p = log_prior(COUNTS)
    sizes = (0.2, 0.1)  # of old and of new classes

    def margin(kind: Margin) -> Tensor | None:
        return margin_logits(kind, LABELS, COUNTS, num_old=2, scale=10.0, sizes=sizes)

    wanted: dict[Margin, Tensor] = {
        "prior": log_p,
        "paper_literal": 10 * log_p,
        "fixed": -10 * 0.1 * F.one_hot(LABELS, 4),
        "columns": torch.tensor([-2.0, -2.0, -1.0, -1.0]),
    }
    for kind, value in wanted.items():
        found = margin(kind)
        assert found is not None and torch.allclose(found, value), kind
    assert margin("none") is None


@pytest.mark.parametrize("strength", [0.0, 0.5, 1.0, 2.0])
def test_an_unbounded_prior_is_the_log_prior_times_its_strength(strength: float) -> None:
    assert torch.allclose(bounded_log_prior(COUNTS, strength, math.inf), strength * log_prior(COUNTS))


def test_a_bounded_prior_never_asks_for_more_than_its_bound() -> None:
    for largest in (0.1, 1.0, 3.0):
        prior = bounded_log_prior(torch.tensor([500, 5, 5]), 1.0, largest)
        assert float(prior.max() - prior.min()) == pytest.approx(min(largest, math.log(100)), rel=1e-5)
    balanced = bounded_log_prior(torch.tensor([7, 7]), 1.0, 0.5)
    assert torch.allclose(balanced, log_prior(torch.tensor([7, 7]))), "nothing to bound"
