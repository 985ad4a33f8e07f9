from __future__ import annotations

import pytest
import torch
from torch import nn

from upcl.core.errors import UserError
from upcl.nets import BACKBONES, LinearHead, Network, PrototypeHead, SlimmableBackbone, frozen_copy, make_backbone


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
    images = torch.randn(2, 1, size, size)
    assert backbone.blocks(backbone.stem(images)).shape[2:] == (last_map, last_map)
    assert backbone(images).shape == (2, backbone.dim)


@pytest.mark.parametrize("name", ["resnet32", "small"])
def test_features_are_signed_without_the_last_relu(name: str) -> None:
    torch.manual_seed(0)
    images = torch.randn(8, 3, 16, 16)
    for last_relu in (True, False):
        backbone = make_backbone(name, last_relu=last_relu)
        maps = backbone.blocks(backbone.stem(images)).detach()
        assert (float(maps.min()) >= 0) == last_relu


def test_unknown_backbone_names_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean resnet18"):
        make_backbone("resnet19")


@pytest.mark.parametrize("name", ["resnet32", "small", "resnet18-7x7"])
def test_teacher_equals_the_network_without_norms_and_gradients(name: str) -> None:
    torch.manual_seed(0)
    backbone = make_backbone(name)
    net = Network(backbone, LinearHead(backbone.dim))
    net.grow(5)
    net.train()
    for _ in range(3):
        net(torch.randn(8, 3, 32, 32))  # moves the running statistics
    teacher = frozen_copy(net)
    net.eval()
    images = torch.randn(4, 3, 32, 32)
    assert torch.allclose(teacher(images), net(images), atol=1e-4)
    assert not any(isinstance(m, nn.BatchNorm2d) for m in teacher.modules())
    assert not any(p.requires_grad for p in teacher.parameters())
    assert not teacher.training
    assert any(isinstance(m, nn.BatchNorm2d) for m in net.modules()), "the network itself is left alone"
    assert all(p.requires_grad for p in net.parameters())


def test_teacher_does_not_follow_the_network() -> None:
    backbone = make_backbone("small")
    net = Network(backbone, LinearHead(backbone.dim))
    net.grow(2)
    teacher, images = frozen_copy(net), torch.randn(2, 3, 8, 8)
    before = teacher(images)
    with torch.no_grad():
        for p in net.parameters():
            p.add_(1.0)
    net.grow(2)
    assert torch.equal(teacher(images), before)


def test_projector_is_linear_and_off_by_default() -> None:
    backbone = make_backbone("small")
    plain = Network(backbone, PrototypeHead(backbone.dim))
    projected = Network(backbone, PrototypeHead(200), torch.nn.Linear(128, 200))
    images = torch.randn(2, 3, 8, 8)
    assert torch.equal(plain.eval().embed(images), plain.features(images))
    assert projected.embed(images).shape == (2, 200)


def test_scrolled_weights_are_contiguous_in_every_width() -> None:
    """oneDNN's backward of a convolution wrote past its memory for weights that are views, from 48 pixels on."""
    backbone = SlimmableBackbone(BACKBONES["small"], 3, 4)
    backbone.roll.scroll = 1
    for width in (1, 2, 3, 4):
        backbone.at_width(torch.randn(2, 3, 64, 64), width).square().sum().backward()
        backbone.roll.width = width
        assert all(
            backbone.roll.take(p, axis).is_contiguous() for p in backbone.parameters() if p.ndim == 4 for axis in (0, 1)
        )
        backbone.roll.width = 4
