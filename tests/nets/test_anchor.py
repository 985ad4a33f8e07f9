"""Networks that are held near earlier values."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from upcl.nets import make_backbone
from upcl.nets.anchor import AnchoredNetwork


def network(*sizes: int) -> AnchoredNetwork:
    torch.manual_seed(0)
    net = AnchoredNetwork(make_backbone("small"))
    net.regrow(sizes)
    return net


def random_weights(net: AnchoredNetwork) -> dict[str, Tensor]:
    return {name: torch.rand_like(parameter) for name, parameter in net.named_parameters()}


def move(net: AnchoredNetwork) -> None:
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter))


def test_penalty_is_the_weighted_sum_of_squares_over_what_is_held() -> None:
    net = network(2)
    weights = random_weights(net)
    values = {name: parameter.detach().clone() for name, parameter in net.named_parameters()}
    net.hold(weights)
    net.grow(3)
    move(net)
    wanted = 0.0
    for name, parameter in net.named_parameters():
        rows = parameter.detach()[: len(values[name])]
        wanted += float((weights[name].double() * (rows - values[name]).double().square()).sum())
    assert net.penalty().item() == pytest.approx(wanted, rel=1e-4)
    (gradient,) = torch.autograd.grad(net.penalty(), [net.head.weight])
    pull = 2 * weights["head.weight"] * (net.head.weight.detach()[:2] - values["head.weight"])
    assert torch.allclose(gradient[:2], pull) and not gradient[2:].any(), "rows of new classes are free"


def test_nothing_is_held_at_first() -> None:
    net = network(2)
    move(net)
    assert net.penalty().item() == 0


def test_weights_of_several_tasks_add_up_around_the_newest_values() -> None:
    net = network(2)
    first = random_weights(net)
    net.hold(first)
    net.grow(1)
    move(net)
    second = random_weights(net)
    net.hold(second, decay=0.5)
    assert net.penalty().item() == 0
    assert torch.equal(net.values["head.bias"], net.head.bias.detach())
    assert torch.allclose(net.weights["head.weight"][:2], 0.5 * first["head.weight"] + second["head.weight"][:2])
    assert torch.equal(net.weights["head.weight"][2:], second["head.weight"][2:])


def test_the_tensors_depend_on_growth_alone() -> None:
    net = network(2)
    net.traces["path.head.bias"] = torch.ones(2)
    net.hold(random_weights(net))
    assert not list(net.traces.state_dict()), "traces end with their task"
    net.grow(3)
    other = network(2, 3)
    assert {k: v.shape for k, v in net.state_dict().items()} == {k: v.shape for k, v in other.state_dict().items()}
    other.load_state_dict(net.state_dict())
    assert other.penalty().item() == pytest.approx(net.penalty().item())
    assert torch.equal(other.weights["head.weight"], net.weights["head.weight"])
