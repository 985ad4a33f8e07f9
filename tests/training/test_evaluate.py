"""The accuracy of a model, compared with a slow reference on a model whose scores are known."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from upcl.core.metrics import accuracy
from upcl.core.types import Samples
from upcl.training.evaluate import PredictionCounter, evaluate, head_accuracy

NUM_CLASSES, DIM = 7, 5


class KnownNetwork(nn.Module):
    """Features are the inputs themselves."""

    def features(self, inputs: Tensor) -> Tensor:
        return inputs


@dataclass
class KnownMethod:
    """A method whose features are its inputs and whose head is a given matrix."""

    weight: Tensor
    exemplars: Samples

    def __post_init__(self) -> None:
        self.net = KnownNetwork()
        self.memory = SimpleNamespace(samples=self.exemplars)
        self.setting = SimpleNamespace(device=torch.device("cpu"), batches=self._batches)

    @staticmethod
    def _batches(samples: Samples) -> Any:
        return zip(samples.inputs.split(4), samples.labels.split(4), strict=True)  # the last batch is smaller

    def extract(self, samples: Samples) -> Tensor:
        return samples.inputs

    def scores(self, features: Tensor) -> Tensor:
        return features @ self.weight.T


@pytest.fixture
def samples() -> Samples:
    generator = torch.Generator().manual_seed(0)
    return Samples(torch.randn(39, DIM, generator=generator), torch.randint(0, NUM_CLASSES, (39,), generator=generator))


@pytest.fixture
def method() -> KnownMethod:
    generator = torch.Generator().manual_seed(1)
    labels = torch.tensor([0, 0, 1, 2, 3, 3, 5, 6])  # class 4 has no exemplar
    exemplars = Samples(torch.randn(len(labels), DIM, generator=generator), labels)
    return KnownMethod(torch.randn(NUM_CLASSES, DIM, generator=generator), exemplars)


def slow_reference(rank: Any, samples: Samples) -> tuple[list[list[int]], list[int]]:
    """Confusion and top-5 counts by a loop over images; `rank` lists the classes of an image, best first."""
    confusion = [[0] * NUM_CLASSES for _ in range(NUM_CLASSES)]
    top5 = [0] * NUM_CLASSES
    for image, label in zip(samples.inputs, samples.labels.tolist(), strict=True):
        ranking = rank(image)
        confusion[label][ranking[0]] += 1
        top5[label] += label in ranking[:5]
    return confusion, top5


def rank_by_head(method: KnownMethod, image: Tensor) -> list[int]:
    scores = [float(row @ image) for row in method.weight]
    return sorted(range(NUM_CLASSES), key=lambda k: -scores[k])


def rank_by_nearest_mean(method: KnownMethod, image: Tensor) -> list[int]:
    unit, distances = image / image.norm(), {}
    for k in range(NUM_CLASSES):
        rows = [row / row.norm() for row in method.exemplars.inputs[method.exemplars.labels == k]]
        if rows:
            mean = torch.stack(rows).mean(0)
            distances[k] = float((unit - mean / mean.norm()).square().sum())
    return sorted(distances, key=lambda k: distances[k])


def rank_by_both(method: KnownMethod, image: Tensor) -> list[int]:
    """The mean of both standardised scores; class 4 has no mean, so its head decides alone."""
    head = [float(row @ image) for row in method.weight]
    unit, cosines = image / image.norm(), {}
    for k in range(NUM_CLASSES):
        rows = [row / row.norm() for row in method.exemplars.inputs[method.exemplars.labels == k]]
        if rows:
            mean = torch.stack(rows).mean(0)
            cosines[k] = float(unit @ mean / mean.norm())

    def standardised(values: list[float]) -> list[float]:
        mean, deviation = statistics.fmean(values), statistics.pstdev(values)
        return [(value - mean) / deviation for value in values]

    by_head = standardised(head)
    by_mean = dict(zip(cosines, standardised(list(cosines.values())), strict=True))
    scores = [(by_head[k] + by_mean[k]) / 2 if k in by_mean else by_head[k] for k in range(NUM_CLASSES)]
    return sorted(range(NUM_CLASSES), key=lambda k: -scores[k])


def test_counts_equal_a_slow_reference(method: KnownMethod, samples: Samples) -> None:
    readings = evaluate(method, samples, NUM_CLASSES)  # type: ignore[arg-type]
    for name, rank in (("head", rank_by_head), ("nme", rank_by_nearest_mean), ("both", rank_by_both)):
        reading = readings[name]  # type: ignore[index]
        confusion, top5 = slow_reference(lambda image, rank=rank: rank(method, image), samples)
        assert reading is not None
        assert reading.confusion.to_dense().tolist() == confusion
        assert reading.top5.tolist() == top5
        assert int(reading.confusion.sum()) == len(samples)


def test_perfect_and_hopeless_models() -> None:
    labels = torch.arange(NUM_CLASSES).repeat(3)
    samples = Samples(F.one_hot(labels, NUM_CLASSES).float(), labels)
    for weight, expected in ((torch.eye(NUM_CLASSES), 100.0), (torch.eye(NUM_CLASSES).roll(1, 0), 0.0)):
        method = KnownMethod(weight, samples)
        readings = evaluate(method, samples, NUM_CLASSES)  # type: ignore[arg-type]
        head, nme = readings["head"], readings["nme"]
        assert head and nme
        assert accuracy(head.hits, head.totals) == expected
        assert accuracy(nme.hits, nme.totals) == 100.0
        assert head_accuracy(method, samples) == expected / 100  # type: ignore[arg-type]


def test_without_exemplars_there_is_no_nearest_mean(samples: Samples) -> None:
    method = KnownMethod(torch.eye(NUM_CLASSES, DIM), samples[:0])
    readings = evaluate(method, samples, NUM_CLASSES)  # type: ignore[arg-type]
    assert readings["nme"] is None
    assert readings["head"] is not None


def test_class_with_the_score_minus_infinity_is_not_among_the_top_five() -> None:
    counter = PredictionCounter(3, torch.device("cpu"))
    counter.add(torch.tensor([[0.2, -torch.inf, 0.1]]), torch.tensor([1]))
    assert counter.reading().top5.tolist() == [0, 0, 0]
    assert counter.reading().confusion.to_dense().tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 0]]


def test_counts_take_no_room_for_pairs_of_classes_that_are_never_confused() -> None:
    counter = PredictionCounter(300_000, torch.device("cpu"))  # a full table would have 90 billion entries
    for _ in range(2):
        scores = torch.zeros(1, 300_000)
        scores[0, 7] = 1.0
        counter.add(scores, torch.tensor([9]))
    reading = counter.reading()
    assert reading.confusion.indices().tolist() == [[9], [7]] and reading.confusion.values().tolist() == [2]
    assert int(reading.totals.sum()) == int(reading.totals[9]) == 2 and int(reading.hits.sum()) == 0
