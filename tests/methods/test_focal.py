"""iCaRL with the focal loss."""

from __future__ import annotations

from tests.methods.scenarios import (
    on_fixture_a,
    total,
)
from tests.specification import close


def test_focal_loss_replaces_cross_entropy() -> None:
    losses = on_fixture_a("focal")
    assert close(losses["ce"], 0.209237)
    assert close(total(losses), 0.864881)
    assert close(on_fixture_a("focal", gamma=1)["ce"], 0.369468)
