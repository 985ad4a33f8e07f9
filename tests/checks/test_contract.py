"""The conformance suite finds methods that break the contract."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from upcl.checks import CHECKS, check_method
from upcl.core.recipes import Recipe, Recipes
from upcl.core.types import Batch, Losses, Samples, Stage, Task
from upcl.methods import LinearMethod


@dataclass(kw_only=True, eq=False)
class Replay(LinearMethod):
    """Respects the contract."""

    name = "replay"
    title = paper = summary = "Replay"
    recipes = Recipes(Recipe(), Recipe())

    def losses(self, batch: Batch) -> Losses:
        return {"ce": F.cross_entropy(self.net(batch.inputs), batch.labels)}


class TrainsUnsavedParameter(Replay):
    """Trains a parameter that is not in the network."""

    def stage(self) -> Stage:
        self.offset = nn.Parameter(torch.zeros(()))
        stage = super().stage()
        return dataclasses.replace(stage, params=[*stage.params, self.offset])

    def losses(self, batch: Batch) -> Losses:
        return {"ce": super().losses(batch)["ce"] + self.offset}


class KeepsUnsavedState(Replay):
    """Carries a number from epoch to epoch that is not saved."""

    seen = 0.0

    def begin(self, task: Task) -> None:
        super().begin(task)
        self.seen = 0.0

    def losses(self, batch: Batch) -> Losses:
        self.seen += 0.1
        return {"ce": super().losses(batch)["ce"] * (1 + self.seen)}


class ChangesFrozenWeights(Replay):
    """Changes the frozen part of a stage."""

    def stage(self) -> Stage:
        params = [self.net.head.weight, self.net.head.bias]
        return dataclasses.replace(super().stage(), params=params, frozen=[self.net])

    def losses(self, batch: Batch) -> Losses:
        with torch.no_grad():
            next(iter(self.net.backbone.parameters())).add_(0.1)
        return super().losses(batch)


class ScoresNewestClassOnly(Replay):
    """Returns a score for the newest class only."""

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        return super().scores(features)[:, -1:]


class IgnoresExtraImages(Replay):
    """Does not train on more images of known classes."""

    def begin(self, task: Task) -> None:
        super().begin(dataclasses.replace(task, extra=Samples(task.train.inputs[:0], task.train.labels[:0])))


class FlipsImages(Replay):
    """Cannot learn from features, and does not say so."""

    def losses(self, batch: Batch) -> Losses:
        return super().losses(dataclasses.replace(batch, inputs=batch.inputs.flip(3)))


class CountsImagesInPython(Replay):
    """Fixes the number of images when it is exported."""

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        return super().scores(features.view(len(features), -1, 1).flatten(1) * len([*features]))


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (TrainsUnsavedParameter, "not part of the network"),
        (KeepsUnsavedState, "stopped .* times"),
        (ChangesFrozenWeights, "outside of stage"),
        (ScoresNewestClassOnly, "scores have shape"),
        (IgnoresExtraImages, "extra images of known classes were not trained on"),
    ],
)
def test_broken_methods_are_found(method: type[Replay], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_method(method)


class UsesNetworkBetweenStages(Replay):
    """Uses its network between stages without setting a mode, as FeTrIL and LUCIR might."""

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
    CHECKS["resume_is_exact"](UsesNetworkBetweenStages)


@pytest.mark.parametrize(
    ("method", "check", "error"),
    [
        (FlipsImages, "frozen_features_are_learned_or_refused", AssertionError),
        (CountsImagesInPython, "predictions_can_be_exported", Exception),
    ],
)
def test_methods_that_need_images_or_cannot_be_exported_are_found(
    method: type[Replay], check: str, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"frozen_obstacle|specialized"):
        CHECKS[check](method)
