"""Every method against the conformance suite, and the numbers of the specification through the methods themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from upcl import METHODS, LinearMethod, Recipe, Recipes, load_dataset
from upcl.checks import CHECKS, MethodClass, check_method
from upcl.config import make_request, resolve
from upcl.core import Batch, Losses, Samples, Task
from upcl.losses import log_prior
from upcl.methods.finetune import Finetune
from upcl.methods.icarl import ICarl
from upcl.methods.upcl import UPCL
from upcl.nets import CosineHead, Head, LinearHead, Network, PrototypeHead
from upcl.runs import make_setting

from .fixtures import COUNTS, LABELS, OLD, RAW, RAW_TEACHER, X, Y, close


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", METHODS)
def test_conformance(name: str, check: Callable[[MethodClass], None]) -> None:
    check(METHODS[name])


@dataclass(kw_only=True, eq=False)
class Wrong(LinearMethod):
    """Breaks the contract: trains a parameter that is not saved."""

    name = "wrong"
    title = paper = idea = "wrong"
    recipes = Recipes(Recipe(), Recipe())

    def begin(self, task: Task) -> None:
        super().begin(task)
        self.extra = nn.Parameter(torch.zeros(()))

    def stage(self) -> Any:
        from dataclasses import replace

        whole = super().stage()
        return replace(whole, params=[*whole.params, self.extra])

    def losses(self, batch: Batch) -> Losses:
        return {"ce": self.net(batch.inputs).square().mean() + self.extra}


def test_the_suite_finds_a_method_that_breaks_the_contract() -> None:
    with pytest.raises(AssertionError, match="not in the network"):
        check_method(Wrong)


class Given(nn.Module):
    """A backbone that returns its input: features are given."""

    dim = 4

    def forward(self, rows: Tensor) -> Tensor:
        return rows


def in_second_task(method: Any, head: Head, teacher_scores: Tensor | None = None) -> Any:
    """A method in the second task of two classes each, with features, or scores, given instead of computed."""
    data = load_dataset("synthetic:classes=4,train=2,test=2")
    config = resolve(make_request({"data": data.name, "tasks": 2}), data, type(method))
    method.setting = make_setting(config, data, torch.device("cpu"))
    head.grow(2)
    head.grow(2)
    method.net = Network(Given(), head)  # type: ignore[arg-type]
    counts = [[k] * int(n) for k, n in enumerate(COUNTS)]
    labels = torch.tensor([k for part in counts for k in part])
    method.task = Task(1, 2, 2, Samples(torch.zeros(len(labels)), labels))
    method.data = method.task.train
    method.teacher = (lambda _: teacher_scores) if teacher_scores is not None else None
    return method


class Scores(LinearHead):
    """Passes given scores on."""

    def forward(self, embeddings: Tensor) -> Tensor:
        return embeddings


def late(inputs: Tensor, labels: Tensor, epoch: int = 160) -> Batch:
    return Batch(inputs, labels, epoch, 170, 0, 1)


def total(losses: Losses) -> float:
    return float(sum(losses.values(), torch.zeros(())))


def test_finetune_trains_on_the_new_slice_only() -> None:
    method = in_second_task(Finetune(), Scores(4))
    Scores.features = lambda _, x: x  # type: ignore[attr-defined]
    method.net.features = lambda x: x
    assert close(total(method.losses(late(X[1:], Y[1:]))), 0.300299)
    method.full_ce = True
    assert close(total(method.losses(late(X, Y))), 0.690731)


def test_icarl_adds_cross_entropy_and_distillation() -> None:
    method = in_second_task(ICarl(), Scores(4), OLD)
    method.net.features = lambda x: x
    losses = method.losses(late(X, Y))
    assert close(losses["ce"], 0.690731)
    assert close(losses["kd"], 0.655644)
    assert close(total(losses), 1.346375)


@pytest.mark.parametrize(
    ("tau", "whole", "early", "first"), [(0.07, 0.146211, 0.145211, 0.562134), (0.5, 0.634404, 0.212754, 1.673607)]
)
def test_upcl_totals_of_fixture_b(tau: float, whole: float, early: float, first: float) -> None:
    features, teacher = torch.tensor(RAW), torch.tensor(RAW_TEACHER)

    def method() -> Any:
        head = PrototypeHead(4)
        made = in_second_task(UPCL(tau=tau), head)
        head.frame = torch.eye(4)
        made.log_prior = log_prior(COUNTS)
        made.net.embed = lambda x: x
        made.teacher = nn.Identity()
        made.teacher.embed = lambda _: teacher
        return made

    assert close(total(method().losses(late(features, LABELS))), whole)
    assert close(total(method().losses(late(features, LABELS, epoch=50))), early), "L_proto starts after epoch 50"
    assert "proto" in method().losses(late(features, LABELS, epoch=51))
    started = method()
    started.task = Task(0, 0, 4, started.task.train)
    started.teacher = None
    assert close(total(started.losses(Batch(features, LABELS, 51, 200, 0, 1))), first)
    assert "proto" not in started.losses(Batch(features, LABELS, 50, 200, 0, 1))


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
def test_lambda_1_schedules(name: str, weights: list[float]) -> None:
    from upcl.methods.upcl import LAMBDA_ONE

    factor, base = LAMBDA_ONE[name]  # type: ignore[index]
    assert [factor * base**t for t in range(5)] == pytest.approx(weights)


@pytest.mark.parametrize(
    ("margin", "value"),
    [("prior", 0.002001), ("paper_literal", 9.346455), ("none", 0.001667), ("fixed", 0.006901), ("columns", 0.001206)],
)
def test_upcl_margins(margin: Any, value: float) -> None:
    head = PrototypeHead(4)
    method = in_second_task(UPCL(margin=margin), head)
    head.frame = torch.eye(4)
    method.log_prior = log_prior(COUNTS)
    method.net.embed = lambda x: x
    losses = method.losses(late(torch.tensor(RAW), LABELS))
    assert close(losses["proto"] / 0.5, value)


def test_upcl_warm_up_scales_with_the_epochs() -> None:
    head = PrototypeHead(4)
    method = in_second_task(UPCL(), head)
    head.frame = torch.eye(4)
    method.log_prior = log_prior(COUNTS)
    method.net.embed = lambda x: x
    started = ["proto" in method.losses(Batch(torch.tensor(RAW), LABELS, e, 17, 0, 1)) for e in range(17)]
    assert started == [False] * 6 + [True] * 11, "51 of 170 epochs: 5.1 of 17"


@pytest.mark.parametrize("every", ["batch", "epoch"])
def test_upcl_matches_every_batch_or_every_epoch(every: Any) -> None:
    head = PrototypeHead(4)
    method = in_second_task(UPCL(assign_every=every), head)
    method.log_prior = log_prior(COUNTS)
    method.net.embed = lambda x: x
    calls = []
    head.match = lambda *_, **__: calls.append(1)  # type: ignore[method-assign]
    for step in range(3):
        method.losses(Batch(torch.tensor(RAW), LABELS, 0, 10, step, 3))
    assert len(calls) == (3 if every == "batch" else 1)


def test_the_official_loss_of_the_first_matching_can_be_emulated() -> None:
    for lose, wanted in ((False, [1, 0, 2, 3]), (True, [0, 1, 2, 3])):
        data = load_dataset("synthetic:classes=4,train=2,test=2")
        method = UPCL(lose_task0_assignment=lose)
        config = resolve(make_request({"data": data.name, "tasks": 2}), data, UPCL)
        method.start(make_setting(config, data, torch.device("cpu")))
        method.begin(Task(0, 0, 2, data.train[data.train.labels < 2]))
        method.net.head.assignment = torch.tensor([1, 0])
        method.begin(Task(1, 2, 2, data.train[data.train.labels >= 2]))
        assert method.net.head.assignment.tolist() == wanted


def test_cosine_head_is_public_for_methods_to_come() -> None:
    assert issubclass(CosineHead, Head)
