"""Every method against the conformance suite; the suite against methods that break the contract."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from upcl import METHODS, LinearMethod, Recipe, Recipes
from upcl.checks import CHECKS, check_method
from upcl.core.types import Batch, Losses, Samples, Stage, Task
from upcl.methods.registry import VARIANTS, find_method

EXAMPLE = Path(__file__).parents[1] / "examples" / "own_method.py"
ALL = {**METHODS, "cosine": VARIANTS["cos"].method, "example": find_method(f"{EXAMPLE}:HoldStill")}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", ALL)
def test_conformance(name: str, check: str) -> None:
    CHECKS[check](ALL[name])


def test_there_are_sixteen_methods_in_the_order_of_the_paper() -> None:
    wanted = "joint finetune focal ldam la lwf fetril icarl lucir coil bic wa cwd nccil scrollnet upcl"
    assert list(METHODS) == wanted.split()
    assert all(method.name == name for name, method in METHODS.items())
    for method in METHODS.values():
        assert method.title and method.paper and method.summary


@dataclass(kw_only=True, eq=False)
class Plain(LinearMethod):
    """Keeps the contract."""

    name = "plain"
    title = paper = summary = "plain"
    recipes = Recipes(Recipe(), Recipe())

    def losses(self, batch: Batch) -> Losses:
        return {"ce": F.cross_entropy(self.net(batch.inputs), batch.labels)}


class Unsaved(Plain):
    """Trains a parameter that is not in the network."""

    def stage(self) -> Stage:
        self.extra = nn.Parameter(torch.zeros(()))
        whole = super().stage()
        return dataclasses.replace(whole, params=[*whole.params, self.extra])

    def losses(self, batch: Batch) -> Losses:
        return {"ce": super().losses(batch)["ce"] + self.extra}


class Forgetful(Plain):
    """Keeps a number of its own from epoch to epoch."""

    seen = 0.0

    def begin(self, task: Task) -> None:
        super().begin(task)
        self.seen = 0.0

    def losses(self, batch: Batch) -> Losses:
        self.seen += 0.1
        return {"ce": super().losses(batch)["ce"] * (1 + self.seen)}


class Meddler(Plain):
    """Moves the frozen part of a stage."""

    def stage(self) -> Stage:
        return dataclasses.replace(
            super().stage(), params=[self.net.head.weight, self.net.head.bias], frozen=[self.net]
        )

    def losses(self, batch: Batch) -> Losses:
        with torch.no_grad():
            next(iter(self.net.backbone.parameters())).add_(0.1)
        return super().losses(batch)


class Narrow(Plain):
    """Scores the newest classes only."""

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        return super().scores(features)[:, -1:]


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (Unsaved, "not in the network"),
        (Forgetful, "stopped after step"),
        (Meddler, "moved although outside"),
        (Narrow, "scores are"),
    ],
)
def test_the_suite_finds_methods_that_break_the_contract(method: type[Plain], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_method(method)


class Imprinter(Plain):
    """Uses its network between stages without asking for a mode: features of two stages, as FeTrIL's and LUCIR's."""

    def learn(self, task: Task) -> Iterator[Stage]:
        self.begin(task)
        with torch.no_grad():
            images = self.setting.transform.test(task.train.inputs)
            self.net.head.weight[task.num_old :] = self.net.features(images).mean(0)
        yield self.stage()
        with torch.no_grad():
            rows = self.net.features(images)
        params = [self.net.head.weight, self.net.head.bias]
        data = Samples(rows, task.train.labels)
        yield Stage("head", data, self.head_losses, params, self.recipe, False, [self.net])
        self.remember()

    def head_losses(self, batch: Batch) -> Losses:
        return {"ce": F.cross_entropy(self.net.head(batch.inputs), batch.labels)}


def test_resume_is_exact_for_methods_that_use_their_network_between_stages() -> None:
    CHECKS["resume_is_exact on synthetic"](Imprinter)
