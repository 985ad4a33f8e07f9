"""Residual backbones."""

from __future__ import annotations

import pytest
import torch

from upcl.nets import Backbone, make_backbone
from upcl.nets.backbones import BackboneConfig, ConvNorm
from upcl.nets.extractors import MapExtractor


@pytest.mark.parametrize(
    ("name", "parameters", "dim"),
    [
        ("resnet18", 11_168_832, 512),
        ("resnet18-7x7", 11_176_512, 512),
        ("resnet34-7x7", 21_284_672, 512),
        ("resnet50-7x7", 23_508_032, 2048),
        ("resnet32", 463_504, 64),
        ("small", 307_360, 128),
    ],
)
def test_parameter_counts(name: str, parameters: int, dim: int) -> None:
    backbone = make_backbone(name)
    assert sum(p.numel() for p in backbone.parameters()) == parameters
    assert backbone.dim == dim


@pytest.mark.parametrize(
    ("name", "size", "last_map"), [("resnet18", 32, 4), ("resnet18-7x7", 64, 2), ("resnet32", 32, 8), ("small", 8, 2)]
)
def test_map_sizes_and_features(name: str, size: int, last_map: int) -> None:
    backbone = make_backbone(name, channels=1).eval()
    assert isinstance(backbone, Backbone)
    images = torch.randn(2, 1, size, size)
    assert backbone.blocks(backbone.stem(images)).shape[2:] == (last_map, last_map)
    assert backbone(images).shape == (2, backbone.dim)


@pytest.mark.parametrize("name", ["resnet32", "small"])
def test_features_are_signed_without_the_last_relu(name: str) -> None:
    torch.manual_seed(0)
    images = torch.randn(8, 3, 16, 16)
    for last_relu in (True, False):
        backbone = make_backbone(name, last_relu=last_relu)
        assert isinstance(backbone, Backbone)
        maps = backbone.blocks(backbone.stem(images)).detach()
        assert (float(maps.min()) >= 0) == last_relu


def test_folding_merges_batch_norm_into_the_convolution() -> None:
    torch.manual_seed(0)
    layer = ConvNorm(3, 8, 3)
    layer.train()
    layer(torch.randn(16, 3, 8, 8) + 2)  # moves the running statistics
    layer.eval()
    images = torch.randn(2, 3, 8, 8)
    before = layer(images)
    layer.fold()
    assert torch.allclose(layer(images), before, atol=1e-5)
    assert isinstance(layer[1], torch.nn.Identity)


def test_plan_lists_every_block() -> None:
    config = BackboneConfig((8, 16), (2, 1), "3x3", "conv", bottleneck=True)
    assert config.blocks_per_stage() == [2, 1]
    assert list(config.plan()) == [(8, 32, 1), (32, 32, 1), (32, 64, 2)]
    assert config.dim == 64


@pytest.mark.parametrize("name", ["small", "pooled", "efficientnet-lite0", "resnet18-7x7"])
def test_features_are_the_average_of_the_map(name: str) -> None:
    backbone = make_backbone(name).eval()
    images = torch.rand(2, 3, 32, 32)
    assert isinstance(backbone, MapExtractor)
    with torch.no_grad():
        maps = backbone.maps(images)
        assert maps.shape[:2] == (2, backbone.dim) and torch.equal(backbone(images), maps.mean((2, 3)))
