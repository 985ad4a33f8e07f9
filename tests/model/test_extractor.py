"""The frozen network of a model."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from tests.model.feature_models import CPU, grow, spec
from upcl.model.extractor import backbone_weights, feature_extractor
from upcl.model.spec import make_method


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPCL_CACHE", str(tmp_path))


def test_features_are_those_of_the_stored_network() -> None:
    bundle = grow(None, {"ant": range(3)})
    compute, cache = feature_extractor(bundle.spec, bundle.state, CPU)
    method = make_method(bundle.spec, 1, CPU)
    method.net.backbone.load_state_dict(backbone_weights(bundle.state))
    images = torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8)
    with torch.no_grad():
        expected = method.net.eval().features(method.setting.transform.test(images))
    assert torch.allclose(compute(images), expected, rtol=0.05, atol=0.05)
    assert cache.dtype["features"].shape == expected.shape[1:]


def test_another_network_or_size_has_another_cache() -> None:
    first, second = grow(None, {"ant": range(3)}), grow(None, {"ant": range(3)}, None, spec(seed=1))
    larger = dataclasses.replace(spec(), size=64)
    made = [(spec(), first), (spec("ncm"), first), (spec(), second), (larger, first)]
    paths = [feature_extractor(made_with, bundle.state, CPU)[1].path for made_with, bundle in made]
    assert paths[0] == paths[1] and len(set(paths)) == 3
