"""Closed-form methods: exact growth, whatever the order and the tasks, and the choice of a regularisation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.methods.scenarios import built, split_tasks, train
from upcl.core.closed_form import class_ranks
from upcl.core.types import Samples, Task
from upcl.data import load_dataset
from upcl.methods import METHODS, closed_form
from upcl.methods.closed_form import NUM_FOLDS, ClosedForm

FIXED: dict[str, dict[str, Any]] = {
    "ncm": {},
    "slda": {"shrinkage": 0.1},
    "ridge": {"penalty": 0.1},
    "ranpac": {"penalty": 0.1},
}
DATA = "synthetic:classes=6,train=10,test=4"


def test_all_closed_form_methods_are_tested() -> None:
    assert FIXED.keys() == {name for name, method in METHODS.items() if issubclass(method, ClosedForm)}


@pytest.mark.parametrize("name", FIXED)
def test_learning_in_tasks_equals_learning_everything_at_once(name: str) -> None:
    data = load_dataset(DATA)
    at_once, in_tasks = (built(METHODS[name], data, FIXED[name]) for _ in range(2))
    train(at_once, Task(0, 0, 6, data.train))
    for task in split_tasks(data, [2, 1, 3]):
        train(in_tasks, task)
    assert torch.allclose(at_once.net.head.weight, in_tasks.net.head.weight, atol=1e-6)
    assert torch.allclose(at_once.net.head.bias, in_tasks.net.head.bias, atol=1e-6)


@pytest.mark.parametrize("name", FIXED)
def test_more_images_of_a_known_class_are_learned_exactly(name: str) -> None:
    data = load_dataset(DATA)
    at_once, in_parts = (built(METHODS[name], data, FIXED[name]) for _ in range(2))
    train(at_once, Task(0, 0, 6, data.train))
    late = torch.arange(len(data.train)) % 3 == 0
    known, new = data.train.labels < 4, data.train.labels >= 4
    train(in_parts, Task(0, 0, 4, data.train[known & ~late]))
    train(in_parts, Task(1, 4, 2, data.train[new], extra=data.train[known & late]))
    assert torch.allclose(at_once.net.head.weight, in_parts.net.head.weight, atol=1e-6)


@pytest.mark.parametrize("name", FIXED)
def test_the_backbone_does_not_change_and_images_are_classified(name: str) -> None:
    data = load_dataset(DATA)
    method = built(METHODS[name], data, FIXED[name])
    before = {key: value.clone() for key, value in method.net.backbone.state_dict().items()}
    train(method, Task(0, 0, 6, data.train))
    assert all(torch.equal(value, before[key]) for key, value in method.net.backbone.state_dict().items())
    predictions = method.scores(method.extract(data.train)).argmax(1)
    assert (predictions == data.train.labels).float().mean() > 0.8


@pytest.mark.parametrize("name", ["slda", "ridge"])
def test_the_regularisation_is_the_best_of_a_slow_cross_validation(name: str) -> None:
    data = load_dataset("digits:train=20,test=5")
    method = built(METHODS[name], data)
    train(method, Task(0, 0, 10, data.train))
    features, labels = F.normalize(method.extract(data.train)), data.train.labels
    folds = class_ranks(labels) % NUM_FOLDS
    scores = []
    for strength in method.strengths:
        correct = 0
        for fold in range(NUM_FOLDS):
            kept, left_out = folds != fold, folds == fold
            weight, bias = method.solve(method.net.head.measure(features[kept], labels[kept]), strength)
            correct += int(((features[left_out].double() @ weight.T + bias).argmax(1) == labels[left_out]).sum())
        scores.append(correct)
    chosen, accuracy = method.cross_validate(features, labels)
    assert chosen == method.strengths[scores.index(max(scores))] and accuracy == max(scores) / len(labels)
    weight, _ = method.solve(method.net.head.statistics, chosen)
    assert torch.allclose(method.net.head.weight, weight.float())


@pytest.mark.parametrize("name", FIXED)
def test_few_images_are_solved_in_the_space_that_they_span(name: str) -> None:
    data = load_dataset(DATA)
    method = built(METHODS[name], data, FIXED[name])
    train(method, Task(0, 0, 6, data.train))
    images = torch.rand(9, method.net.head.dim, generator=torch.Generator().manual_seed(0))
    images[8] = images[0]  # a photo and its copy span one dimension
    labels = torch.arange(9) % 6
    statistics = method.net.head.measure(images, labels)
    for quick, exact in zip(method.solve_few(images, labels, 0.01), method.solve(statistics, 0.01), strict=True):
        assert torch.allclose(quick, exact, atol=1e-8)


def test_folds_take_every_fifth_image_of_each_class() -> None:
    labels = torch.tensor([1, 0, 1, 1, 0, 1, 1, 1])
    assert (class_ranks(labels) % NUM_FOLDS).tolist() == [0, 0, 1, 2, 1, 3, 4, 0]


@pytest.mark.parametrize("name", ["slda", "ridge"])
def test_the_choice_among_many_images_does_not_depend_on_the_order_of_the_classes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closed_form, "ENOUGH", 20)
    data = load_dataset("digits:train=20,test=5")
    found = set()
    for shift in range(5):
        method = built(METHODS[name], data)
        labels = (data.train.labels + shift) % 10
        order = labels.argsort(stable=True)
        train(method, Task(0, 0, 10, Samples(data.train.inputs[order], labels[order])))
        found.add(method.cross_validate(method.extract(data.train)[order], labels[order]))
    assert len(found) == 1
