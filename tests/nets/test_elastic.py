"""The network of EFC."""

from __future__ import annotations

import torch
from torch import nn

from upcl.nets import make_backbone
from upcl.nets.elastic import JITTER, ElasticNetwork, GaussianHead


def test_stored_distributions_are_those_of_the_features() -> None:
    torch.manual_seed(0)
    head, features = GaussianHead(4), torch.randn(50, 4) @ torch.randn(4, 4) + 3
    head.grow(1)
    head.grow(1)
    head.learn(1, features)
    assert torch.allclose(head.means[1], features.mean(0), atol=1e-5)
    wanted = torch.cov(features.T) + JITTER * torch.eye(4)
    assert torch.allclose(head.factors[1] @ head.factors[1].T, wanted, atol=1e-4)
    assert not head.means[0].any() and not head.factors[0].any()


def test_drawn_features_have_the_distribution_of_their_class() -> None:
    torch.manual_seed(0)
    head = GaussianHead(3)
    head.grow(2)
    sources = [torch.randn(40, 3) @ torch.randn(3, 3) + shift for shift in (-5, 5)]
    for k, source in enumerate(sources):
        head.learn(k, source)
    labels = torch.tensor([0, 1]).repeat(20_000)
    drawn = head.draw(labels)
    for k, source in enumerate(sources):
        own, scale = drawn[labels == k], source.std(0)
        assert bool(((own.mean(0) - source.mean(0)).abs() < 0.05 * scale).all())
        error = torch.cov(own.T) - torch.cov(source.T)
        assert bool((error.abs() < 0.05 * scale[:, None] * scale).all())


def test_a_single_image_has_a_tiny_variance() -> None:
    head = GaussianHead(3)
    head.grow(1)
    head.learn(0, torch.ones(1, 3))
    assert bool(torch.isfinite(head.factors).all())
    assert float((head.draw(torch.zeros(100, dtype=torch.int64)) - 1).abs().max()) < 0.05


def test_a_forgotten_class_leaves_nothing() -> None:
    head = GaussianHead(3)
    head.grow(2)
    head.learn(1, torch.randn(5, 3))
    head.forget(1)
    assert not head.means[1].any() and not head.factors[1].any() and not head.weight[1].any()


def test_the_second_head_is_there_in_the_first_task_alone() -> None:
    net = ElasticNetwork(make_backbone("small"), rotations=3)
    net.grow(2)
    assert net.turned(torch.rand(1, 128)).shape == (1, 6)
    net.end_task()
    net.grow(2)
    other = ElasticNetwork(make_backbone("small"), rotations=3)
    other.regrow([2, 2])
    assert isinstance(net.turned, nn.Identity) and list(net.state_dict()) == list(other.state_dict())
    other.load_state_dict(net.state_dict())
    plain = ElasticNetwork(make_backbone("small"), rotations=0)
    plain.grow(2)
    assert isinstance(plain.turned, nn.Identity)
