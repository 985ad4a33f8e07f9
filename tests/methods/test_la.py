"""iCaRL with logit adjustment."""

from __future__ import annotations

from tests.methods.scenarios import (
    on_fixture_a,
    total,
)
from tests.specification import COUNTS, X, Y, close


def test_logits_are_adjusted_by_the_log_prior() -> None:
    losses = on_fixture_a("la")
    assert close(losses["ce"], 0.870437)
    assert close(total(losses), 1.526080)
    weighted = X.exp() * COUNTS
    assert close(losses["ce"], float(-(weighted[range(3), Y] / weighted.sum(1)).log().mean()))


def test_the_adjustment_has_a_strength() -> None:
    assert close(on_fixture_a("la", tau=0.0)["ce"], 0.690731), "0 is cross-entropy"
