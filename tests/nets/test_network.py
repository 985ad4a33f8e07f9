"""The network and its frozen copy."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from upcl.nets import Execution, LinearHead, Network, PrototypeHead, frozen_copy, make_backbone


def small_net(num_classes: int = 0) -> Network[LinearHead]:
    backbone = make_backbone("small")
    net = Network(backbone, LinearHead(backbone.dim))
    if num_classes:
        net.grow(num_classes)
    return net


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
    net = small_net(2)
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


def test_a_regrown_network_loads_the_weights_of_another() -> None:
    net = small_net()
    for num_new in (2, 3):
        net.grow(num_new)
    other = small_net()
    other.regrow(net.growth)
    assert other.growth == [2, 3]
    other.load_state_dict(net.state_dict())
    images = torch.randn(2, 3, 8, 8)
    assert torch.equal(net.eval()(images), other.eval()(images))


def test_images_to_scores_in_three_steps() -> None:
    net, images = small_net(3).eval(), torch.randn(2, 3, 8, 8)
    assert torch.equal(net(images), net.classify(net.features(images)))
    assert torch.equal(net(images), net.head(net.embed(images)))


def test_bfloat16_changes_the_backbone_only_and_returns_float32() -> None:
    net, images = small_net(3).eval(), torch.randn(2, 3, 8, 8)
    plain = net.features(images)
    state = {name: value.clone() for name, value in net.state_dict().items()}
    net.set_execution(Execution(precision="bfloat16"))
    features = net.features(images)
    assert features.dtype == torch.float32
    assert not torch.equal(features, plain) and torch.allclose(features, plain, atol=0.1)
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    assert frozen_copy(net).execution.precision == "bfloat16", "a teacher is executed in the same way"


def test_bytes_of_a_network_are_those_of_its_tensors() -> None:
    plain = small_net(2)
    assert plain.num_bytes == sum(v.numel() * v.element_size() for v in plain.state_dict().values()) > 1_000_000
