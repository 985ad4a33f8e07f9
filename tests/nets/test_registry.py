"""Backbones by name."""

from __future__ import annotations

import pytest
import torch

from upcl.core.errors import UserError
from upcl.nets import BACKBONES, make_backbone


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_backbone_has_the_features_it_promises(name: str, channels: int) -> None:
    backbone = make_backbone(name, channels).eval()
    with torch.no_grad():
        features = backbone(torch.rand(2, channels, 32, 32))
    assert features.shape == (2, backbone.dim) == (2, BACKBONES[name].dim)
    assert float(features.min()) >= 0


@pytest.mark.parametrize("name", BACKBONES)
def test_features_are_signed_without_the_last_relu(name: str) -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        assert float(make_backbone(name, last_relu=False).eval()(torch.randn(2, 3, 32, 32)).min()) < 0


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown backbone 'poled': did you mean pooled"):
        make_backbone("poled")
