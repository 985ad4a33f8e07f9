"""Small data and a method in a small setting, for the conformance checks."""

from __future__ import annotations

from typing import Any

import torch

from upcl.core.types import Batch, Losses, Samples, Stage, Task
from upcl.data import Dataset, load_dataset
from upcl.methods import MethodClass
from upcl.methods.registry import build_method
from upcl.research.config import Request, resolve
from upcl.research.setting import make_protocol, make_setting
from upcl.training.engine import fit

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


class MethodHarness:
    """A method in a small setting, to be taken through its tasks step by step.

    Args:
        method: the class of the method.
        data: a small data set.

    Example:
        >>> from upcl.methods import METHODS
        >>> harness = MethodHarness(METHODS["finetune"], few_digits(2))
        >>> harness.learn(harness.tasks[0])
        >>> harness.method.net.head.num_classes
        2
    """

    def __init__(self, method: MethodClass, data: Dataset) -> None:
        config = resolve(Request(method=method, data=data, **QUICK), data, method)
        self.protocol = make_protocol(config, data)
        self.tasks = [self.protocol.task(t) for t in range(len(self.protocol))]
        self.method = build_method(method, config.options, make_setting(config, data, torch.device("cpu")), seed=0)

    def train(self, stage: Stage) -> None:
        """Train one stage.

        Args:
            stage: what the method yielded.
        """
        setting = self.method.setting
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
        some = stage.data[torch.arange(0, len(stage.data), max(1, len(stage.data) // 16))]
        inputs, _ = next(self.method.setting.batches(some))
        self.method.net.train()
        for module in stage.frozen:
            module.eval()
        return stage.losses(Batch(inputs, some.labels, stage.recipe.epochs - 1, stage.recipe.epochs, 0, 1))
