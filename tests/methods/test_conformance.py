"""Every method passes the conformance suite: those of the package, the ablation's, and the example."""

from __future__ import annotations

from pathlib import Path

import pytest

from upcl.checks import CHECKS
from upcl.methods import METHODS, VARIANTS, find_method

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_method.py"
ALL = {**METHODS, "cosine": VARIANTS["cos"].method, "example": find_method(f"{EXAMPLE}:FeatureDistillation")}


@pytest.mark.no_cover
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", ALL)
def test_method_passes(name: str, check: str) -> None:
    CHECKS[check](ALL[name])
