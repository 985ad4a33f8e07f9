"""What quick steps take from the step before."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.model.feature_models import grow, spec
from upcl.model.quick_steps import find_known

CPU = torch.device("cpu")


def test_the_gram_matrix_is_that_of_all_features_and_the_strength_one_of_the_methods_own() -> None:
    bundle = grow(None, {"ant": range(8), "bull": range(8)}, None, spec("ridge"))
    known = find_known(bundle, CPU)
    features = F.normalize(bundle.state.exemplars.inputs.float()).double()
    assert known.gram is not None and torch.allclose(known.gram, features.T @ features)
    assert known.strength in (1e-1, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5)


def test_projected_features_have_no_gram_matrix_of_their_own() -> None:
    assert find_known(grow(None, {"ant": range(8), "bull": range(8)}, None, spec("ranpac")), CPU).gram is None
