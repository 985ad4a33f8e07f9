"""What a second of this machine buys: precision, backbones and recipes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial

import torch

from upcl.core.timing import Measurement, speedup, time_in_turns
from upcl.nets import Execution, LinearHead, Network, make_backbone
from upcl.research.config import Request
from upcl.research.run import run
from upcl.training.precision import faster_precision

BATCH_SIZE, SIZE = 32, 32
GOAL_DATA = "synthetic:classes=20,size=32,train=50,test=20"
GOAL = 80.0  # percent of the test images
EPOCHS = (1, 2, 3, 5, 8, 12, 20, 30)  # tried in turn until the goal is reached
OLD_QUICK = {"backbone": "medium", "precision": "float32"}
NEW_QUICK = {"backbone": "pooled", "precision": "auto"}


class BareStep:
    """The forward pass, the backward pass and the update of a backbone, on one prepared batch.

    Args:
        backbone: name of the backbone.
        execution: how it is executed.

    Example:
        >>> BareStep("small", Execution())()
    """

    def __init__(self, backbone: str, execution: Execution) -> None:
        features = make_backbone(backbone)
        self.net = Network(features, LinearHead(features.dim)).train()
        self.net.set_execution(execution)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-3, momentum=0.9)
        self.images = torch.randn(BATCH_SIZE, 3, SIZE, SIZE)

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        self.net.features(self.images).square().mean().backward()
        self.optimizer.step()


def measure_budget(repeats: int) -> Iterator[Measurement]:
    """Compare precisions and backbones with the bare float32 step, and the seconds to a given accuracy.

    Args:
        repeats: number of rounds.

    Example:
        >>> next(measure_budget(repeats=1)).name  # doctest: +SKIP
        'medium, bfloat16 (auto: float32)'
    """
    chosen = faster_precision()
    for backbone in ("medium", "pooled"):
        steps = {
            "bfloat16": BareStep(backbone, Execution("bfloat16")),
            "float32": BareStep(backbone, Execution("float32")),
        }
        yield speedup("budget", f"{backbone}, bfloat16 (auto: {chosen})", time_in_turns(steps, repeats))
    backbones = {name: BareStep(name, Execution()) for name in ("pooled", "medium")}
    yield speedup("budget", "pooled against medium, one step", time_in_turns(backbones, repeats))
    recipes = {name: quick_request(**choices) for name, choices in (("new", NEW_QUICK), ("old", OLD_QUICK))}
    enough = {
        f"{name}, {epochs} epochs": partial(run, dataclasses.replace(request, epochs=epochs))
        for name, request in recipes.items()
        for epochs in [epochs_to_goal(request, GOAL)]
    }
    yield speedup("budget", f"quick recipe, seconds to {GOAL:.0f} %", time_in_turns(enough, 1))


def quick_request(backbone: str, precision: str, data: str = GOAL_DATA) -> Request:
    """Request a quick run that learns all classes in a single task.

    Args:
        backbone: name of the backbone.
        precision: what it computes in.
        data: name of the data set.

    Example:
        >>> quick_request("pooled", "auto").recipe
        'quick'
    """
    values = {"backbone": backbone, "precision": precision, "data": data}
    return Request.from_mapping({"method": "finetune", "tasks": 1, "recipe": "quick", **values})


def epochs_to_goal(request: Request, goal: float) -> int:
    """Find out how many epochs a run needs to reach a test accuracy.

    Args:
        request: the run.
        goal: accuracy in percent.

    Returns:
        The first of `EPOCHS` that is enough, or the last.

    Example:
        >>> epochs_to_goal(quick_request("small", "float32", "synthetic:classes=2,train=4,test=4"), goal=0.0)
        1
    """
    for epochs in EPOCHS[:-1]:
        if run(dataclasses.replace(request, epochs=epochs)).a_last.head >= goal:
            return epochs
    return EPOCHS[-1]
