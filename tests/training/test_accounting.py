from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import nn

from upcl.checks import MethodHarness, few_digits
from upcl.core.budget import Budget
from upcl.methods import METHODS
from upcl.nets import Execution, Network
from upcl.training.accounting import Cost, measure_cost, multiply_adds, num_parameters

DIGIT = (1, 8, 8)


def learned(method: str, tasks: int = 1) -> MethodHarness:
    harness = MethodHarness(METHODS[method], few_digits(4))
    for task in harness.tasks[:tasks]:
        harness.learn(task)
    return harness


def counted_by_hooks(net: Network[Any], shape: tuple[int, ...]) -> int:
    """Multiply-adds of convolutions and linear layers, from the shapes of their outputs."""
    total = []

    def hook(module: nn.Module, _: Any, output: torch.Tensor) -> None:
        if isinstance(module, nn.Conv2d):
            each = module.in_channels // module.groups * math.prod(module.kernel_size)
            total.append(output[0].numel() * each)

    handles = [module.register_forward_hook(hook) for module in net.modules()]
    with torch.no_grad():
        features = net.eval().features(torch.zeros(1, *shape))
    for handle in handles:
        handle.remove()
    return sum(total) + int(features.shape[1]) * int(net.head.num_classes)


@pytest.mark.parametrize("shape", [DIGIT, (1, 16, 16)])
def test_multiply_adds_equal_a_count_from_shapes(shape: tuple[int, ...]) -> None:
    method = learned("finetune").method
    assert multiply_adds(method, shape) == counted_by_hooks(method.net, shape)


def test_counting_leaves_the_method_as_it_is() -> None:
    method = learned("icarl").method
    method.net.execution = dataclasses.replace(method.net.execution, precision="bfloat16")
    before = {name: value.clone() for name, value in method.net.state_dict().items()}
    random = torch.get_rng_state()
    measure_cost(method, DIGIT)
    assert method.net.execution == Execution("bfloat16")
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(before[name], value) for name, value in method.net.state_dict().items())


def test_execution_is_restored_after_an_error() -> None:
    method = learned("finetune").method
    method.net.execution = Execution("bfloat16")
    with pytest.raises(RuntimeError):
        multiply_adds(method, (7, 8, 8))
    assert method.net.execution == Execution("bfloat16")


def test_parameters_are_those_of_the_network() -> None:
    for name in ("finetune", "icarl", "scrollnet"):
        net = learned(name).method.net
        assert num_parameters(net) == sum(p.numel() for p in net.parameters()), name


def test_bytes_count_everything_that_is_saved() -> None:
    method = learned("upcl").method
    saved = method.state()["net"].values()
    cost = measure_cost(method, DIGIT)
    assert cost.network_bytes == sum(value.numel() * value.element_size() for value in saved)
    assert cost.exemplar_bytes == 64 * len(method.memory.samples) > 0, "one byte per pixel"
    assert cost.total_bytes == cost.network_bytes + cost.exemplar_bytes


@pytest.mark.parametrize("name", ["ewc", "si"])
def test_what_holds_parameters_counts_three_times(name: str) -> None:
    """The parameters, their earlier values and their weights; the traces of SI end with their task."""
    net = learned(name).method.net
    assert num_parameters(net) == 3 * sum(p.numel() for p in net.parameters())
    assert not any(key.startswith("traces.") for key in net.state_dict())


def test_growing_network_shows_its_growth() -> None:
    sizes = []
    for tasks in (1, 2, 3):
        method = learned("der", tasks).method
        backbones = sum(p.numel() for p in method.net.backbone.parameters())
        head = sum(p.numel() for p in method.net.head.parameters())
        sizes.append(measure_cost(method, DIGIT))
        assert sizes[-1].parameters == backbones + head, "the auxiliary head is only for training"
    assert sizes[1].multiply_adds > 1.99 * sizes[0].multiply_adds
    assert sizes[2].network_bytes > 2.99 * sizes[0].network_bytes


def test_teacher_does_not_count() -> None:
    method = learned("icarl", 2).method
    assert method.teacher is not None
    assert num_parameters(method.net) == sum(p.numel() for p in method.net.parameters())


def test_exemplars_fill_what_the_network_leaves_of_a_total_budget() -> None:
    harness = MethodHarness(METHODS["der"], few_digits(8))
    harness.method.memory.budget = Budget(10**7, "total bytes")
    harness.learn(harness.tasks[0])
    one = measure_cost(harness.method, DIGIT)
    assert one.exemplar_bytes == 64 * len(harness.tasks[0].train), "all images fit"
    limit = 2 * one.network_bytes + 3000
    harness.method.memory.budget = Budget(limit, "total bytes")
    harness.learn(harness.tasks[1])
    two = measure_cost(harness.method, DIGIT)
    assert 0 < two.exemplar_bytes < 2 * one.exemplar_bytes, "the second backbone leaves less"
    assert limit - 64 < two.total_bytes <= limit


def test_cost_is_a_plain_value() -> None:
    cost = Cost(1, 4, 2, 3)
    assert Cost(**dataclasses.asdict(cost)) == cost and cost.total_bytes == 6
