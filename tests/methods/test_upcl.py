"""UPCL."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from tests.methods.scenarios import (
    GivenTeacher,
    batch_at,
    built,
    first_task,
    second_task,
    small_data,
    split_tasks,
    total,
    train,
)
from tests.specification import COUNTS, LABELS, RAW, RAW_TEACHER, close
from upcl.core.errors import UserError
from upcl.core.frames import largest_cosine
from upcl.core.recipes import Recipes
from upcl.core.types import Batch, Task
from upcl.data import load_dataset
from upcl.methods.upcl import LAMBDA_ONE, UPCL
from upcl.nets import PrototypeHead


def upcl_fixture(**options: Any) -> Any:
    head = PrototypeHead(4, frame=torch.eye(4))
    method = second_task(UPCL(**options), head)
    method.teacher = GivenTeacher(torch.tensor(RAW_TEACHER))
    return method


@pytest.mark.parametrize(
    ("tau", "later", "early", "first"), [(0.07, 0.146211, 0.145211, 0.562134), (0.5, 0.634404, 0.212754, 1.673607)]
)
def test_totals_of_the_specification(tau: float, later: float, early: float, first: float) -> None:
    features = torch.tensor(RAW)
    assert close(total(upcl_fixture(tau=tau).losses(batch_at(features, LABELS))), later)
    assert close(total(upcl_fixture(tau=tau).losses(batch_at(features, LABELS, epoch=50))), early)
    assert "proto" in upcl_fixture(tau=tau).losses(batch_at(features, LABELS, epoch=51)), (
        "L_proto starts after epoch 50"
    )
    started = first_task(upcl_fixture(tau=tau))
    assert close(total(started.losses(Batch(features, LABELS, 51, 200, 0, 1))), first)
    assert "proto" not in started.losses(Batch(features, LABELS, 50, 200, 0, 1))


@pytest.mark.parametrize(
    ("margin", "value"),
    [("prior", 0.002001), ("paper_literal", 9.346455), ("none", 0.001667), ("fixed", 0.006901), ("columns", 0.001206)],
)
def test_margins_of_the_specification(margin: Any, value: float) -> None:
    losses = upcl_fixture(margin=margin).losses(batch_at(torch.tensor(RAW), LABELS))
    assert close(losses["proto"] / 0.5, value)


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("1/2^t", [1, 0.5, 0.25, 0.125, 0.0625]),
        ("1/10^t", [1, 0.1, 0.01, 0.001, 0.0001]),
        ("2^t", [1, 2, 4, 8, 16]),
        ("0.1", [0.1] * 5),
        ("1", [1.0] * 5),
        ("2", [2.0] * 5),
    ],
)
def test_lambda_1_schedules_change_the_feature_term_alone(name: Any, weights: list[float]) -> None:
    assert name in LAMBDA_ONE
    for t, weight in enumerate(weights):
        method = upcl_fixture(lambda_1=name)
        method.task = Task(t, 2, 2, method.task.train)
        losses = method.losses(batch_at(torch.tensor(RAW), LABELS))
        assert float(losses["feat"]) == pytest.approx(0.5 * weight * 0.560132, rel=1e-5)
        assert close(losses["fkd"], 0.5 * 0.010355)


@pytest.mark.parametrize(("warmup", "epochs", "first"), [(51, 17, 6), (0, 17, 0), (57, 170, 57), (51, 170, 51)])
def test_warm_up_scales_with_the_epochs(warmup: int, epochs: int, first: int) -> None:
    method = upcl_fixture(proto_warmup=warmup)
    started = ["proto" in method.losses(batch_at(torch.tensor(RAW), LABELS, e, epochs)) for e in range(epochs)]
    assert started == [False] * first + [True] * (epochs - first)


def test_terms_are_weighted_by_the_share_of_old_classes() -> None:
    head = PrototypeHead(4, frame=torch.eye(4))
    method = second_task(UPCL(), head, COUNTS, (3, 1))
    method.teacher = GivenTeacher(torch.tensor(RAW_TEACHER))
    losses = method.losses(batch_at(torch.tensor(RAW), LABELS))
    assert close(losses["fkd"], 0.75 * 0.010355)
    assert close(losses["feat"], 0.25 * 0.5 * 0.560132)
    assert close(losses["proto"], 0.25 * 0.002001)


@pytest.mark.parametrize("every", ["batch", "epoch"])
def test_prototypes_are_assigned_every_batch_or_every_epoch(every: Any) -> None:
    method = upcl_fixture(assign_every=every)
    calls: list[int] = []
    method.net.head.assign = lambda *_, **__: calls.append(1)
    for step in range(3):
        method.losses(Batch(torch.tensor(RAW), LABELS, 0, 10, step, 3))
    assert len(calls) == (3 if every == "batch" else 1)


def test_the_official_reset_of_the_first_assignment_can_be_emulated() -> None:
    for lose, wanted in ((False, [1, 0, 2, 3]), (True, [0, 1, 2, 3])):
        data = small_data(train=2)
        method = built(UPCL, data, {"lose_task0_assignment": lose})
        first, second = split_tasks(data, [2, 2])
        method.begin(first)
        method.net.head.assignment = torch.tensor([1, 0])
        method.begin(second)
        assert method.net.head.assignment.tolist() == wanted


@pytest.mark.parametrize(
    ("prototypes", "largest"),
    [("uniform", 0.0), ("orthonormal", 0.0), ("gaussian", 0.4), ("simplex", -0.2), ("energy", -0.2)],
)
def test_every_kind_of_prototype(prototypes: str, largest: float) -> None:
    """The largest cosine of 6 prototypes in 128 dimensions: a simplex has -1/5, orthonormal rows 0."""
    data = small_data(6)
    method = built(UPCL, data, {"prototypes": prototypes})
    for task in split_tasks(data, [2, 2, 2]):
        train(method, task)
    vectors = method.net.head.vectors
    assert vectors.shape == (6, 128)
    assert torch.allclose(vectors.norm(dim=1), torch.ones(6), atol=1e-5)
    found = largest_cosine(vectors)
    assert 0 < found < largest if prototypes == "gaussian" else found == pytest.approx(largest, abs=0.02)


def test_uniform_prototypes_continue_beyond_the_feature_dimensions() -> None:
    data = load_dataset("synthetic:classes=30,train=4,test=1")
    method = built(UPCL, data, {"projector": 8})
    for task in split_tasks(data, [10, 10, 10]):
        train(method, task)
    assert method.net.head.vectors.shape == (30, 8)
    assert largest_cosine(method.net.head.vectors) < 0.8
    for prototypes in ("orthonormal", "simplex"):
        with pytest.raises(UserError, match=r"do(es)? not fit in 8"):
            built(UPCL, data, {"projector": 8, "prototypes": prototypes})


# --- short schedules


def test_short_schedules_have_no_warm_up_and_normalised_terms() -> None:
    method = upcl_fixture()
    short = dataclasses.replace(method.setting.recipes.later, epochs=15)
    method.setting = dataclasses.replace(method.setting, recipes=Recipes(short, short))
    batch = Batch(torch.tensor(RAW), LABELS, 0, 15, 0, 1)
    losses = method.losses(batch)
    assert close(losses["proto"], 0.002001), "not multiplied by C_new / C = 0.5, from the first epoch on"
    assert close(losses["fkd"], 0.010355), "C_old / C_new = 1"
    official = upcl_fixture(**UPCL.official_options)
    official.setting = method.setting
    assert "proto" not in official.losses(batch)
    assert close(official.losses(batch)["fkd"], 0.5 * 0.010355)


@pytest.mark.parametrize(("strength", "reach"), [(0.7, 0.0), (1.0, 0.01), (0.5, 0.02)])
def test_the_prior_is_weakened_by_its_strength_and_its_reach(strength: float, reach: float) -> None:
    method = upcl_fixture(prior_strength=strength, prior_reach=reach)
    prior = (COUNTS / COUNTS.sum()).log()
    spread = float(prior.max() - prior.min())
    factor = min(strength, reach / 0.07 / spread) if reach else strength
    found = method.margin_on(LABELS, 1 / 0.07)
    assert torch.allclose(found, factor * prior, atol=1e-5)
