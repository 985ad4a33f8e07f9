"""Methods in small settings: with given features or scores, or trained for an epoch on synthetic images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tests.specification import COUNTS, OLD, X, Y
from upcl.core.budget import Budget
from upcl.core.memory import Memory
from upcl.core.types import Batch, Losses, Samples, Task
from upcl.data import Dataset, load_dataset
from upcl.methods import METHODS, MethodClass, Setting, build_method
from upcl.nets import FeatureExtractor, Head, LinearHead, Network
from upcl.nets.anchor import AnchoredNetwork
from upcl.training.engine import fit

CPU = torch.device("cpu")


def make_setting(data: Dataset, method_class: MethodClass, *, memory: str = "8", epochs: int | None = 1) -> Setting:
    """The smallest backbone, and the method's own recipes scaled to `epochs`."""
    recipes = method_class.recipes
    return Setting(
        backbone="small",
        channels=data.channels,
        transform=data.transform,
        recipes=recipes if epochs is None else recipes.scaled(epochs),
        budget=Budget.parse(memory),
        selection="herding",
        image_shape=data.image_shape,
        num_classes=len(data.classes),
        device=CPU,
    )


def split_tasks(data: Dataset, sizes: Sequence[int]) -> list[Task]:
    """Tasks of the first classes, the next ones, and so on."""
    tasks, first = [], 0
    for index, num in enumerate(sizes):
        inside = (data.train.labels >= first) & (data.train.labels < first + num)
        tasks.append(Task(index, first, num, data.train[inside]))
        first += num
    return tasks


def train(method: Any, task: Task) -> None:
    """Learn one task."""
    for stage in method.learn(task):
        fit(method.net, stage, transform=method.setting.transform, device=CPU, seed_path=(0, task.index))


def built(
    method_class: MethodClass,
    data: Dataset,
    options: Mapping[str, Any] | None = None,
    *,
    memory: str = "8",
    epochs: int | None = 1,
) -> Any:
    """A method with a new network."""
    return build_method(method_class, options or {}, make_setting(data, method_class, memory=memory, epochs=epochs), 0)


def small_data(num_classes: int = 4, train: int = 6) -> Dataset:
    return load_dataset(f"synthetic:classes={num_classes},train={train},test=2")


def begun(method_class: MethodClass, options: Mapping[str, Any] | None = None) -> Any:
    """A method that has learned two classes and begun a task of two more."""
    data = small_data()
    method = built(method_class, data, options)
    first, second = split_tasks(data, [2, 2])
    train(method, first)
    method.begin(second)
    return method


class GivenFeatures(nn.Module):
    """A backbone that returns its input."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, rows: Tensor) -> Tensor:
        return rows


class GivenScores(LinearHead):
    """A head that returns its input."""

    def forward(self, embeddings: Tensor) -> Tensor:
        return embeddings


class GivenTeacher(nn.Module):
    """A teacher with the same outputs for every batch."""

    def __init__(self, outputs: Tensor, head: Head | None = None) -> None:
        super().__init__()
        self.outputs, self.head = outputs, head

    def forward(self, _: Tensor) -> Tensor:
        return self.outputs if self.head is None else self.head(self.outputs)

    def features(self, _: Tensor) -> Tensor:
        return self.outputs

    embed = features


def second_task(method: Any, head: Head, counts: Tensor = COUNTS, sizes: tuple[int, int] = (2, 2)) -> Any:
    """A method in its second task, with features or scores that are given instead of computed."""
    total = sum(sizes)
    method.setting = make_setting(small_data(total, train=2), type(method), epochs=None)
    for size in sizes:
        head.grow(size)
    network: Any = Network(GivenFeatures(head.dim), head)  # type: ignore[arg-type]
    network.features = lambda rows: rows  # keeps float64
    network.growth = list(sizes)
    method.net = network
    labels = torch.arange(total).repeat_interleave(counts)
    method.task = Task(1, sizes[0], sizes[1], Samples(torch.zeros(len(labels), 1), labels))
    method.data, method.counts = method.task.train, counts
    method.memory = type("Stored", (), {"samples": method.task.train})()
    method.teacher = None
    return method


def first_task(method: Any) -> Any:
    """The same method in its first task."""
    method.task = Task(0, 0, method.task.num_seen, method.task.train)
    method.teacher = None
    return method


def batch_at(inputs: Tensor, labels: Tensor, epoch: int = 160, epochs: int = 170) -> Batch:
    return Batch(inputs, labels, epoch, epochs, 0, 1)


def total(losses: Losses) -> Tensor:
    return torch.stack(list(losses.values())).sum()


def on_fixture_a(name: str, **options: Any) -> Losses:
    """The loss terms of a method on fixture A of the specification."""
    method = second_task(METHODS[name](**options), GivenScores(4))
    method.teacher = GivenTeacher(OLD)
    losses: Losses = method.losses(batch_at(X, Y))
    return losses


def on_linear_problem(method: Any, features: Tensor, labels: Tensor, sizes: Sequence[int]) -> Any:
    """A method that anchors parameters, in the last of some tasks, with a linear head alone on given features."""
    method.setting = make_setting(small_data(), type(method), memory="0", epochs=None)
    method.net = AnchoredNetwork(GivenFeatures(features.shape[1]))  # type: ignore[arg-type]
    method.net.eval()
    method.memory = Memory(Budget(0), "herding", (1,))
    first = 0
    for index, num in enumerate(sizes):
        inside = (labels >= first) & (labels < first + num)
        method.begin(Task(index, first, num, Samples(features[inside], labels[inside])))
        if index + 1 < len(sizes):
            method.consolidate()
        first += num
    return method


class WithoutStages(FeatureExtractor):
    """A backbone that shows no maps and cannot be divided."""

    dim = 4

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1)[:, :4]
