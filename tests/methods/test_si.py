"""SI: path integrals, compared with the fall of the loss and with gradients that are computed separately."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.methods.gradients import check_anchored
from tests.methods.scenarios import CPU, batch_at, on_linear_problem
from upcl.core.recipes import Recipe
from upcl.core.types import Stage
from upcl.methods.si import PATH, SI, START
from upcl.training.engine import fit

torch.manual_seed(0)
FEATURES, LABELS = torch.randn(12, 3), torch.arange(12) % 4
SLOW = {"lr": 1e-2, "momentum": 0.0, "weight_decay": 0.0, "batch_size": 64}


def path(method: Any) -> dict[str, Any]:
    return {name: method.net.traces[PATH + name] for name, _ in method.net.named_parameters()}


def fit_stage(method: Any, stage: Stage, **recipe: Any) -> None:
    made = Recipe(**{"epochs": 40, **SLOW, **recipe})
    stage = Stage(stage.name, stage.data, stage.losses, stage.params, made, after_step=stage.after_step)
    fit(method.net, stage, transform=method.setting.transform, device=CPU, seed_path=(0,))


def cross_entropy(method: Any) -> float:
    data = method.task.train
    return float(method.losses(batch_at(data.inputs, data.labels))["ce"].detach())


def test_the_path_integral_is_the_fall_of_the_loss() -> None:
    torch.manual_seed(0)
    method = on_linear_problem(SI(), FEATURES, LABELS, [4])
    before = cross_entropy(method)
    fit_stage(method, method.stage())
    fall = before - cross_entropy(method)
    assert fall > 0.05
    assert sum(float(part.sum()) for part in path(method).values()) == pytest.approx(fall, rel=0.02)


def test_the_penalty_is_not_part_of_the_path() -> None:
    method = on_linear_problem(SI(strength=20.0), FEATURES, LABELS, [2, 2])
    method.net.hold({name: torch.ones_like(value) for name, value in method.net.named_parameters()})
    with torch.no_grad():
        method.net.head.weight += 0.3  # so that the penalty pulls from the beginning
    method.begin(method.task)  # starts the path at the present values; adds rows that no image trains
    naive = {name: torch.zeros_like(value) for name, value in method.net.named_parameters()}
    gradients: list[Any] = []

    def losses(batch: Any) -> Any:
        parts = method.losses(batch)
        gradients[:] = torch.autograd.grad(parts["ce"], stage.params, retain_graph=True)
        gradients.append([value.detach().clone() for value in stage.params])
        return parts

    def after_step() -> None:
        *grads, before = gradients
        for (name, value), grad, start in zip(method.net.named_parameters(), grads, before, strict=True):
            naive[name] -= grad * (value.detach() - start)
        method.follow()

    given = method.stage()
    stage = Stage("train", given.data, losses, given.params, given.recipe, after_step=after_step)
    fit_stage(method, stage, momentum=0.9, weight_decay=1e-3)
    for name, part in path(method).items():
        assert torch.allclose(part, naive[name], atol=1e-5), name
        assert bool(part.any())


def test_importance_is_the_path_over_the_squared_way_and_never_negative() -> None:
    method = on_linear_problem(SI(damping=0.5), FEATURES, LABELS, [4])
    for name, value in method.net.named_parameters():
        with torch.no_grad():
            value += 1.0
        method.net.traces[PATH + name] = torch.linspace(-1, 1, value.numel()).view_as(value)
    method.consolidate()
    for name, value in method.net.named_parameters():
        wanted = torch.linspace(-1, 1, value.numel()).view_as(value).clamp(min=0) / 1.5
        assert torch.allclose(method.net.weights[name], wanted)
        assert torch.equal(method.net.values[name], value.detach())


def test_a_task_starts_a_new_path_from_its_first_values() -> None:
    method = on_linear_problem(SI(), FEATURES, LABELS, [2, 2])
    for name, value in method.net.named_parameters():
        assert not method.net.traces[PATH + name].any()
        assert torch.equal(method.net.traces[START + name], value.detach())


def test_gradient() -> None:
    check_anchored(SI(strength=0.7), factor=0.7)
