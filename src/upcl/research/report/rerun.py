"""The command that repeats a stored run, derived from its config alone."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from typing import Any

from upcl.data import DATASETS
from upcl.methods.registry import find_method
from upcl.research.config import Request, RunConfig
from upcl.research.protocol import PROTOCOLS
from upcl.research.record import Record


def train_command(record: Record) -> str:
    """Compose the `upcl train` command that repeats a run, with every value that is not a default.

    Args:
        record: the run.

    Example:
        >>> from upcl import Request, run
        >>> record = run(Request(method="finetune", data="synthetic:classes=2,train=2,test=2", tasks=1, epochs=1))
        >>> train_command(record).partition(" --data ")[0]
        'upcl train finetune'
    """
    config = record.config
    if config.data.partition(":")[0] not in DATASETS:
        return f"(no command: the data set '{config.data}' was created in Python)"
    words = ["upcl", "train", config.method, "--data", config.data, "--tasks", _tasks(config.task_sizes)]
    words += ["--memory", config.memory, "--seed", str(config.seed)]
    frozen = config.frozen_backbone
    words += ["--backbone", frozen, "--frozen"] if frozen else ["--backbone", config.backbone]
    words += ["--order-seed", str(config.order_seed), "--recipe", "own", *_choices(record)]
    return shlex.join([*words, *_set_options(config)])


def _tasks(task_sizes: Sequence[int]) -> str:
    share, rest = divmod(sum(task_sizes), len(task_sizes))
    equal = [share + (t < rest) for t in range(len(task_sizes))]
    return str(len(task_sizes)) if list(task_sizes) == equal else ",".join(map(str, task_sizes))


def _choices(record: Record) -> list[str]:
    words, config = [], record.config
    defaults = {field.name: field.default for field in dataclasses.fields(Request)}
    for name in ("exemplars", "protocol", "precision", "longtail", "scenario", "shards"):
        value = getattr(config, name)
        if value != defaults[name]:
            words += [f"--{name}", str(value)]
    if config.select != PROTOCOLS[config.protocol].select:
        words += ["--select", config.select]
    if config.validation:
        words += ["--validation", str(config.validation)]
    if config.order:
        names = record.classes
        plain = len(set(names)) == len(names) and not any("," in name or name != name.strip() for name in names)
        words += ["--order", ",".join(names if plain else map(str, config.order))]
    return words


def _set_options(config: RunConfig) -> list[str]:
    """Recipe fields and options that differ from the method's own; all of them for an external method, whose code is
    not executed."""
    method = None if ":" in config.method else find_method(config.method)
    pairs: dict[str, Any] = {}
    for part in ("first", "later"):
        recipe, own = (getattr(recipes, part, None) for recipes in (config.recipes, method and method.recipes))
        for name, value in vars(recipe).items():
            if own is None or getattr(own, name) != value:
                pairs[f"{part}.{name}"] = list(value) if isinstance(value, tuple) else value
    pairs |= {name: value for name, value in config.options.items() if value != getattr(method, name, None)}
    words = []
    for name, value in pairs.items():
        words += ["--set", f"{name}={value}"]
    return words
