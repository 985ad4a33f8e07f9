"""FeTrIL."""

from __future__ import annotations

import pytest
import torch

from tests.methods.scenarios import (
    begun,
    built,
    small_data,
    split_tasks,
    train,
)
from upcl.core.errors import UserError
from upcl.core.types import Samples, Task
from upcl.data import load_dataset
from upcl.methods.fetril import FeTrIL, nearest_new


def test_nearest_new_class() -> None:
    old, new = torch.tensor([[2.0, 0.2], [0.1, 1.0]]), torch.tensor([[5.0, 1.0], [0.5, 0.6]])
    assert nearest_new(old, new, "cosine").tolist() == [0, 1]
    assert nearest_new(old, new, "euclid").tolist() == [1, 1]


def test_new_features_are_translated_to_old_means() -> None:
    method = built(FeTrIL, small_data(train=2))
    method.net.regrow([2, 2])
    means = torch.zeros(4, 128)
    means[:, :2] = torch.tensor([[2.0, 0.2], [0.1, 1.0], [5.0, 1.0], [0.5, 0.6]])
    method.net.head.means = means
    method.features = torch.zeros(4, 128)
    method.features[:, :2] = torch.tensor([[5.2, 0.8], [4.8, 1.2], [0.5, 0.6], [0.5, 0.6]])
    method.task = Task(1, 2, 2, Samples(torch.zeros(4, 1), torch.tensor([2, 2, 3, 3])))
    rows = method.translate_features()
    assert rows.labels.tolist() == [2, 2, 3, 3, 0, 0, 1, 1]
    moved = rows.inputs[rows.labels == 0][:, :2]
    assert torch.allclose(moved, torch.tensor([[2.2, 0.0], [1.8, 0.4]]), atol=1e-5)


@pytest.mark.parametrize("sizes", [[2, 2], [1, 1, 1, 1]], ids=str)
def test_svm_separates_all_classes(sizes: list[int]) -> None:
    data = load_dataset("synthetic:classes=4,train=20,test=5")
    method = built(FeTrIL, data, {"classifier": "svm", "nearest": "euclid"}, epochs=5)
    for task in split_tasks(data, sizes):
        train(method, task)
    hits = method.scores(method.extract(data.test)).argmax(1) == data.test.labels
    assert float(hits.float().mean()) > 0.4, "chance is 0.25"


def test_svm_reads_normalised_features() -> None:
    method = begun(FeTrIL, {"classifier": "svm"})
    features = torch.rand(3, 128)
    assert torch.allclose(method.scores(features), method.scores(7 * features), atol=1e-5)
    method.classifier = "linear"
    assert not torch.allclose(method.scores(features), method.scores(7 * features), atol=1e-5)


def test_backbone_is_frozen_after_the_first_task() -> None:
    data = small_data()
    method = built(FeTrIL, data)
    first, second = split_tasks(data, [2, 2])
    train(method, first)
    before = {name: value.clone() for name, value in method.net.backbone.state_dict().items()}
    means = method.net.head.means.clone()
    train(method, second)
    assert all(torch.equal(value, before[name]) for name, value in method.net.backbone.state_dict().items())
    assert torch.equal(method.net.head.means[:2], means), "means of old classes stay"
    assert bool((method.net.head.means[2:] != 0).any(1).all())


def test_extra_images_of_known_classes_are_refused() -> None:
    data = small_data()
    method = built(FeTrIL, data)
    first, second = split_tasks(data, [2, 2])
    train(method, first)
    with pytest.raises(UserError, match="FeTrIL keeps no exemplars, so it cannot learn more images of known classes"):
        method.begin(Task(1, 2, 2, second.train, extra=first.train[:2]))
    assert method.net.head.num_classes == 2, "the network has not grown"
