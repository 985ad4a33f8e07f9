"""One strict, typed config: what was typed is a `Request`; with the data's and method's defaults, a `RunConfig`."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import yaml
from annotated_types import Ge, Lt

from upcl.core.errors import UserError, unknown_choice
from upcl.core.memory import Budget, Selection, Sharing
from upcl.core.options import Count, Fraction, Natural, check, option
from upcl.core.recipes import RECIPES, Recipes, changed_recipes, split_options
from upcl.data import Dataset
from upcl.methods.registry import MethodClass, method_options
from upcl.nets import BACKBONES, Precision

from .protocol import PROTOCOLS, Select, Tail, parse_order, split_classes


@dataclass(frozen=True, kw_only=True)
class Request:
    """What can be asked of a run; None leaves the choice to the data set, the method or the protocol."""

    method: str = option("upcl", "a method's name, or FILE.py:Class for one outside of the package")
    data: str = option("digits", "a data set's name, with options after a colon")
    tasks: int | tuple[int, ...] | None = option(None, "number of tasks, or the classes of each")
    memory: str | None = option(None, "exemplars: 2000, 20/class or 50MB")
    exemplars: Selection = option("herding", "how exemplars are chosen: herding, random or closest")
    seed: Count = option(0, "drives initialisation and sampling")
    order_seed: Annotated[int, Ge(0), Lt(2**32)] = option(1993, "drives the class order")
    order: tuple[str, ...] | None = option(None, "a class order of your own: every class, by name or number")
    epochs: Natural | None = option(None, "epochs of each task; milestones and warm-ups scale with it")
    backbone: str | None = option(None, "the network that makes features")
    recipe: str | None = option(None, "own (the method's), paper (one for all) or quick")
    protocol: str = option("honest", "honest or paper")
    select: Select | None = option(None, "which epoch's model a task keeps: last, validation or test")
    validation: Fraction | None = option(None, "share of the training data held out to choose the epoch")
    precision: Precision = option("float32", "what the backbone computes in: float32, or bfloat16 on accelerators")
    longtail: str | None = option(None, "a long-tailed stream: exp:0.01, step:0.1, exp:0.01:ordered")
    options: dict[str, Any] = field(
        default_factory=dict, metadata={"meaning": "fields of the method, and recipe.X, first.X, later.X", "source": ""}
    )


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that decides a run's outcome. Its digest is the run's identity."""

    method: str
    options: dict[str, Any]
    data: str
    data_sha256: str
    task_sizes: tuple[int, ...]
    order_seed: int
    order: tuple[int, ...] | None
    seed: int
    memory: str
    sharing: Sharing
    exemplars: Selection
    backbone: str
    recipes: Recipes
    protocol: str
    select: Select
    validation: float
    transform: dict[str, Any]
    precision: Precision
    longtail: str | None

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return value

    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    @property
    def tail(self) -> Tail | None:
        return Tail.parse(self.longtail) if self.longtail else None

    @property
    def budget(self) -> Budget:
        return Budget.parse(self.memory, self.sharing)


def make_request(values: Mapping[str, Any]) -> Request:
    given = {key: value for key, value in values.items() if value is not None}
    return Request(**check(Request, given, "key of the config"))


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a config file."""
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not YAML: {error}") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise UserError(f"{path} must hold keys and values, such as 'method: upcl'")
    return content


def resolve(request: Request, dataset: Dataset, method: MethodClass) -> RunConfig:
    """Fill in what the data set, the method and the protocol decide; check everything before anything runs."""
    if request.protocol not in PROTOCOLS:
        raise unknown_choice("protocol", request.protocol, PROTOCOLS)
    choices = PROTOCOLS[request.protocol]
    backbone = dataset.backbone if request.backbone is None else request.backbone
    if backbone not in BACKBONES:
        raise unknown_choice("backbone", backbone, BACKBONES)
    select = request.select or choices.select
    memory = dataset.memory if request.memory is None else request.memory
    tasks = dataset.tasks if request.tasks is None else request.tasks
    options = split_options(request.options)
    slots = Budget.parse(memory).slots(len(dataset.classes), math.prod(dataset.image_shape))
    if method.needs_exemplars and slots == 0:
        raise UserError(f"{method.title} needs exemplars: give it a memory, such as --memory 20/class")
    return RunConfig(
        method=request.method,
        options=method_options(request.method, method, options["method"], official=choices.official),
        data=dataset.name,
        data_sha256=dataset.fingerprint(),
        task_sizes=tuple(split_classes(len(dataset.classes), tasks)),
        order_seed=request.order_seed,
        order=tuple(parse_order(request.order, dataset.classes)) if request.order else None,
        seed=request.seed,
        memory=memory,
        sharing=choices.sharing,
        exemplars=request.exemplars,
        backbone=backbone,
        recipes=changed_recipes(_recipes(request, dataset, method), request.epochs, options),
        protocol=request.protocol,
        select=select,
        validation=_validation(request.validation, select),
        transform=dataset.transform.to_json(),
        precision=request.precision,
        longtail=request.longtail,
    )


def _validation(fraction: float | None, select: Select) -> float:
    if select != "validation":
        if fraction:
            raise UserError("validation holds data out to choose the epoch: say --select validation too")
        return 0.0
    if fraction == 0:
        raise UserError("--select validation needs a share of the training data: --validation 0.1")
    return 0.1 if fraction is None else fraction


def _recipes(request: Request, dataset: Dataset, method: MethodClass) -> Recipes:
    name = dataset.recipe if request.recipe is None else request.recipe
    if name not in RECIPES:
        raise unknown_choice("recipe", name, RECIPES)
    return RECIPES[name] or method.recipes


def read_order(text: str) -> list[str]:
    """`cat,dog,owl`, or a file with a class a line."""
    path = Path(text).expanduser()
    is_file = os.path.isfile(path)  # noqa: PTH113 (a list may be longer than a path can be)
    lines = path.read_text().splitlines() if is_file else text.split(",")
    return [line.strip() for line in lines if line.strip()]


def parse_sizes(text: str) -> int | Sequence[int]:
    """`5` tasks, or the classes of each: `4,3,3`."""
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"tasks '{text}': say a number (5) or the classes of each task (4,3,3)") from None
    return sizes[0] if len(sizes) == 1 else sizes
