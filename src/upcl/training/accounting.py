"""What a method costs between tasks and at test time: numbers and bytes to keep, and arithmetic per image."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from upcl.methods.base import Method
from upcl.nets import Execution, Network
from upcl.nets.slimmable import RolledNorm

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, RolledNorm)


@dataclass(frozen=True)
class Cost:
    """What a method keeps after a task, and what a prediction takes.

    Args:
        parameters: numbers of the network that must be kept: parameters, and what a method holds for later tasks, such
            as the Fisher information of EWC. Running statistics of batch norms do not count, as in papers, nor does a
            teacher, which is a copy made when a task begins.
        network_bytes: bytes of everything in the network that must be kept, with running statistics and integers.
        exemplar_bytes: bytes of the exemplars, as raw pixels at the model's size.
        multiply_adds: multiply-adds of convolutions and matrix products for one image, from its pixels to its scores.

    Example:
        >>> Cost(parameters=1000, network_bytes=4000, exemplar_bytes=6144, multiply_adds=50_000).total_bytes
        10144
    """

    parameters: int
    network_bytes: int
    exemplar_bytes: int
    multiply_adds: int

    @property
    def total_bytes(self) -> int:
        """Bytes of network and exemplars together."""
        return self.network_bytes + self.exemplar_bytes


def measure_cost(method: Method[Any], image_shape: Sequence[int]) -> Cost:
    """Measure what a method keeps, between two tasks.

    Args:
        method: the method.
        image_shape: shape of one image, (C, H, W), as the backbone gets it.

    Example:
        >>> from upcl.checks import MethodHarness, few_digits
        >>> from upcl.methods import METHODS
        >>> harness = MethodHarness(METHODS["icarl"], few_digits(2))
        >>> harness.learn(harness.tasks[0])
        >>> cost = measure_cost(harness.method, (1, 8, 8))
        >>> cost.exemplar_bytes == 64 * len(harness.method.memory.samples)
        True
    """
    return Cost(
        num_parameters(method.net), method.net.num_bytes, method.memory.num_bytes, multiply_adds(method, image_shape)
    )


def num_parameters(net: Network[Any]) -> int:
    """Count the numbers of a network that must be kept, without the running statistics of batch norms.

    Args:
        net: the network.

    Example:
        >>> from upcl.nets import LinearHead, make_backbone
        >>> num_parameters(Network(make_backbone("resnet32"), LinearHead(64)))  # as papers count it
        463504
    """
    norms = [(name, module) for name, module in net.named_modules() if isinstance(module, NORMS)]
    running = {f"{name}.{buffer}" for name, module in norms for buffer, _ in module.named_buffers()}
    return sum(v.numel() for name, v in net.state_dict().items() if v.is_floating_point() and name not in running)


@torch.no_grad()
def multiply_adds(method: Method[Any], image_shape: Sequence[int]) -> int:
    """Count the multiply-adds of a prediction: one image through the network as it is used at test time.

    Convolutions and matrix products count; normalisation, activations and pooling, which are a few percent, do not.

    Args:
        method: a method between two tasks.
        image_shape: shape of one image, (C, H, W), as the backbone gets it.

    Example:
        >>> from upcl.checks import MethodHarness, few_digits
        >>> from upcl.methods import METHODS
        >>> harness = MethodHarness(METHODS["finetune"], few_digits(2))
        >>> harness.learn(harness.tasks[0])
        >>> multiply_adds(harness.method, (1, 16, 16)) > 2 * multiply_adds(harness.method, (1, 8, 8))
        True
    """
    net, execution = method.net, method.net.execution
    net.eval()
    # A compiled backbone would be compiled once more for a batch of one; shards would be sent to other processes.
    eager = torch.compiler.set_stance("force_eager") if execution.compiled else nullcontext()
    image = torch.zeros(1, *image_shape, device=method.setting.device)
    net.execution = Execution()
    try:
        with eager, FlopCounterMode(display=False) as counter:
            method.scores(net.features(image))
    finally:
        net.execution = execution
    return int(counter.get_total_flops()) // 2  # the counter takes a multiply-add for two operations
