"""Faster ways of computing give the same loss and gradient."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor, nn

from upcl.nets import Execution, LinearHead, Network, make_backbone


def network() -> Network[LinearHead]:
    torch.manual_seed(0)
    net = Network(make_backbone("small"), LinearHead(128))
    net.grow(3)
    return net


def loss_and_gradient(net: Network[LinearHead]) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    images, labels = torch.randn(8, 3, 16, 16), torch.arange(8) % 3
    loss = nn.functional.cross_entropy(net.train()(images), labels)
    (gradient,) = torch.autograd.grad(loss, [next(net.parameters())])
    return loss.detach(), gradient


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it compiles
@pytest.mark.parametrize(
    ("execution", "tolerance"),
    [(Execution(), 1e-5), (Execution("bfloat16"), 0.02), (Execution(compiled=True), 1e-5)],
    ids=["channels-last", "bfloat16", "compiled"],
)
def test_every_execution_gives_the_same_loss(execution: Execution, tolerance: float) -> None:
    expected, gradient = loss_and_gradient(network())
    net = network()
    net.set_execution(execution)
    assert next(net.parameters()).is_contiguous(memory_format=torch.channels_last)
    loss, other_gradient = loss_and_gradient(net)
    assert loss.dtype == torch.float32
    assert torch.allclose(loss, expected, rtol=tolerance)
    assert (other_gradient - gradient).norm() <= 10 * tolerance * gradient.norm()


def test_default_execution_is_float32_and_not_compiled() -> None:
    assert dataclasses.asdict(Execution()) == {"precision": "float32", "compiled": False, "sharding": None}
