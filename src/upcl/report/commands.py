"""The command that makes a stored run again, from its config alone."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

from ..config import Request, find_method
from ..errors import UpclError
from ..protocol import PROTOCOLS
from ..records import Record


def command_of(record: Record) -> str:
    """`upcl train ...` with everything that is not a default of the method or the program."""
    config = record["config"]
    words = ["upcl", "train", config["method"], "--data", config["data"], "--tasks", _tasks(config["task_sizes"])]
    words += ["--memory", config["memory"], "--backbone", config["backbone"], "--seed", str(config["seed"])]
    words += ["--order-seed", str(config["order_seed"]), "--recipe", "own", *_choices(config)]
    return shlex.join([*words, *_settings(config)])


def _tasks(sizes: list[int]) -> str:
    share, rest = divmod(sum(sizes), len(sizes))
    equal = [share + (t < rest) for t in range(len(sizes))]
    return str(len(sizes)) if sizes == equal and len(sizes) > 0 else ",".join(map(str, sizes))


def _choices(config: dict[str, Any]) -> list[str]:
    words = []
    defaults = {field.name: field.default for field in dataclasses.fields(Request)}
    for name in ("exemplars", "protocol", "precision", "longtail"):
        if config[name] != defaults[name]:
            words += [f"--{name}", str(config[name])]
    if config["select"] != PROTOCOLS[config["protocol"]].select:
        words += ["--select", config["select"]]
    if config["validation"]:
        words += ["--validation", str(config["validation"])]
    if config["order"]:
        words += ["--order", ",".join(map(str, config["order"]))]
    return words


def _settings(config: dict[str, Any]) -> list[str]:
    """Recipes and options, where they are not the method's own."""
    try:
        method = find_method(config["method"])
    except UpclError:  # a method from outside whose file is gone
        return []
    recipes = {part: dataclasses.asdict(getattr(method.recipes, part)) for part in ("first", "later")}
    pairs = {
        f"{part}.{name}": value
        for part, recipe in config["recipes"].items()
        for name, value in recipe.items()
        if recipes[part][name] != (tuple(value) if isinstance(value, list) else value)
    }
    pairs |= {name: value for name, value in config["options"].items() if value != getattr(method, name, None)}
    words = []
    for name, value in pairs.items():
        words += ["--set", f"{name}={value}"]
    return words
