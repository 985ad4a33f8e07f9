"""Small data and a method in a small setting, for the conformance checks."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from upcl.core.types import Batch, Losses, Samples, Stage, Task
from upcl.data import Dataset, load_dataset
from upcl.methods import METHODS, MethodClass, build_method
from upcl.research.config import Request, resolve
from upcl.research.setting import make_protocol, make_setting
from upcl.training.engine import fit
from upcl.training.task_trainer import freeze

SYNTHETIC = "synthetic:classes=6,train=8,test=4"
QUICK: dict[str, Any] = {"tasks": 3, "memory": "12", "epochs": 2}


def few_digits(num_per_class: int = 8) -> Dataset:
    """A few real images of six handwritten digits.

    Args:
        num_per_class: images of each digit in the training and in the test part.

    Example:
        >>> len(few_digits(3).train)
        18
    """
    digits = load_dataset("digits")

    def some(samples: Samples) -> Samples:
        return samples[torch.cat([(samples.labels == k).nonzero()[:num_per_class, 0] for k in range(6)])]

    parts = {"train": some(digits.train), "test": some(digits.test)}
    return Dataset(**{**vars(digits), **parts, "name": "few-digits", "classes": digits.classes[:6]})


def features_of(data: Dataset) -> Dataset:
    """Replace the images of a data set by features of the smallest backbone with random weights.

    Args:
        data: a small data set.

    Example:
        >>> features_of(few_digits(2)).image_shape
        (128,)
    """
    method = MethodHarness(METHODS["finetune"], data).method
    parts = {"train": data.train, "test": data.test}
    features = {name: Samples(method.extract(samples).half(), samples.labels) for name, samples in parts.items()}
    return Dataset(**{**vars(data), **features})


class MethodHarness:
    """A method in a small setting, to be taken through its tasks step by step.

    Args:
        method: the class of the method.
        data: a small data set.
        frozen: learn from features of a frozen backbone instead of images.
        shards: parts into which every batch is divided, as for several processes.

    Example:
        >>> from upcl.methods import METHODS
        >>> harness = MethodHarness(METHODS["finetune"], few_digits(2))
        >>> harness.learn(harness.tasks[0])
        >>> harness.method.net.head.num_classes
        2
    """

    def __init__(self, method: MethodClass, data: Dataset, *, frozen: bool = False, shards: int = 1) -> None:
        config = resolve(Request(method=method, data=data, shards=shards, **QUICK), data, method)
        setting = make_setting(config, data, torch.device("cpu"))
        if frozen:
            data = features_of(data)
            setting = dataclasses.replace(setting, image_shape=data.image_shape)
        self.protocol = make_protocol(config, data)
        self.tasks = [self.protocol.task(t) for t in range(len(self.protocol))]
        self.method = build_method(method, config.options, setting, seed=0)
        self.frozen = [self.method.net.backbone.requires_grad_(False)] if frozen else []

    def train(self, stage: Stage) -> None:
        """Train one stage.

        Args:
            stage: what the method yielded.
        """
        setting = self.method.setting
        stage = freeze(stage, self.frozen, self.method.title)
        fit(self.method.net, stage, transform=setting.transform, device=setting.device, seed_path=(0,))

    def learn(self, task: Task) -> None:
        """Train all stages of a task.

        Args:
            task: what to learn.
        """
        for stage in self.method.learn(task):
            self.train(stage)

    def losses(self, stage: Stage) -> Losses:
        """The losses on some of a stage's data, as in its last epoch.

        Args:
            stage: what the method yielded.
        """
        rows = torch.arange(0, len(stage.data), max(1, len(stage.data) // 16))
        some = stage.data[rows.repeat(stage.views)]
        inputs, _ = next(self.method.setting.batches(some))
        self.method.net.train()
        for module in stage.frozen:
            module.eval()
        return stage.losses(Batch(inputs, some.labels, stage.recipe.epochs - 1, stage.recipe.epochs, 0, 1))


def check_scores(harness: MethodHarness, task: Task) -> None:
    """Check that scores of all test images are finite, with one column per class seen.

    Args:
        harness: a method that has learned the task.
        task: the last task.

    Example:
        >>> from upcl.methods import METHODS
        >>> harness = MethodHarness(METHODS["finetune"], few_digits(2))
        >>> harness.learn(harness.tasks[0])
        >>> check_scores(harness, harness.tasks[0])
    """
    images = harness.protocol.test(task.num_seen)
    scores = harness.method.scores(harness.method.extract(images))
    expected = (len(images), task.num_seen)
    assert scores.shape == expected, f"scores have shape {tuple(scores.shape)}, not {expected}"
    assert bool(torch.isfinite(scores).all()), "scores are not finite"
