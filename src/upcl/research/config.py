"""What to run: a `Request` as the user states it, and a `RunConfig` with every default filled in."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Lt

from upcl.core.budget import Budget, Sharing
from upcl.core.errors import UserError, unknown_choice
from upcl.core.identity import json_sha256
from upcl.core.memory import Selection
from upcl.core.options import Count, Fraction, Natural, check_values, option
from upcl.core.recipes import FAST_RECIPES, RECIPES, Recipes, override_recipes, split_recipe_options
from upcl.data import Dataset, load_dataset
from upcl.methods import Method, MethodClass, find_method, method_options
from upcl.nets import BACKBONES, Precision
from upcl.training.environment import select_device
from upcl.training.precision import choose_precision
from upcl.training.pretrained import default_pretrained, find_pretrained, is_pretrained

from .protocol import PROTOCOLS, LongTail, Select, parse_order
from .scenarios import Scenario

FROZEN = "frozen:"  # before the name of a backbone
ADDED = {"shards": 1, "scenario": None}  # fields that the identity lacks at these values: earlier runs had none


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to run, checked on construction. None leaves a choice to the data set, the method or the protocol.

    Args:
        method: name of a method, `FILE.py:Class`, or a method class.
        data: name of a data set with options after a colon, or a `Dataset`.
        tasks: number of tasks, or the number of classes of each.
        memory: exemplar budget: "2000" images in total, "20/class", "50MB", or "50MB-total" with the network.
        exemplars: exemplar selection: herding, random or closest.
        seed: seed of initialisation and sampling.
        order_seed: seed of the class order.
        order: custom class order: every class, by name or number.
        epochs: epochs per task; milestones and warm-ups scale with it.
        backbone: name of the feature extractor.
        frozen: use features of a pretrained backbone, computed once; nothing but the layers after it is trained.
        recipe: `own` (the method's), `paper` (one for all methods) or `quick`.
        protocol: `honest` or `paper`.
        select: which epoch a task keeps: last, validation or test.
        validation: share of the training data held out to select the epoch.
        precision: what the backbone computes in: float32, bfloat16 or auto (the faster one on this machine); by default
            auto for the recipes in `FAST_RECIPES`, else float32.
        longtail: long-tailed stream, such as "exp:0.01" or "step:0.1:ordered".
        scenario: how classes and images arrive, such as "half", "blurry:10", "repeat:50" or "blurry:10+online".
        shards: parts of every batch that pass through the backbone by themselves; as many processes may share them.
        options: fields of the method, and `recipe.X`, `first.X`, `later.X` for fields of the recipes.

    Raises:
        UserError: if a value has the wrong type or lies outside of its range.

    Example:
        >>> Request(method="icarl", memory="20", seed=1).tasks is None
        True
        >>> Request(epochs=0)
        Traceback (most recent call last):
        upcl.core.errors.UserError: ...
    """

    method: str | MethodClass = option("upcl", "a method's name, or FILE.py:Class for one outside of the package")
    data: str | Dataset = option("digits", "a data set's name, with options after a colon")
    tasks: int | tuple[int, ...] | None = option(None, "number of tasks, or the number of classes of each")
    memory: str | None = option(None, "exemplars: 2000, 20/class, 50MB, or 50MB-total with the network")
    exemplars: Selection = option("herding", "exemplar selection: herding, random or closest")
    seed: Count = option(0, "seed of initialisation and sampling")
    order_seed: Annotated[int, Ge(0), Lt(2**32)] = option(1993, "seed of the class order")
    order: tuple[str, ...] | None = option(None, "custom class order: every class, by name or number")
    epochs: Natural | None = option(None, "epochs per task; milestones and warm-ups scale with it")
    backbone: str | None = option(None, "feature extractor")
    frozen: bool = option(False, "features of a pretrained backbone that stays as it is")
    recipe: str | None = option(None, "own (the method's), paper (one for all methods) or quick")
    protocol: str = option("honest", "honest or paper")
    select: Select | None = option(None, "which epoch's model a task keeps: last, validation or test")
    validation: Fraction | None = option(None, "share of the training data held out to select the epoch")
    precision: Precision | Literal["auto"] | None = option(
        None, "what the backbone computes in: float32, bfloat16, or auto for the faster of them on this machine"
    )
    longtail: str | None = option(None, "long-tailed stream: exp:0.01, step:0.1, exp:0.01:ordered")
    scenario: str | None = option(None, "how classes and images arrive: half, blurry:10, repeat:50, online")
    shards: Natural = option(1, "parts of every batch, a power of two; as many processes may share them")
    options: dict[str, Any] = field(
        default_factory=dict, metadata={"meaning": "fields of the method, and recipe.X, first.X, later.X", "source": ""}
    )

    def __post_init__(self) -> None:
        checked = {name: value for name, value in vars(self).items() if name not in ("method", "data")}
        checked = check_values(Request, checked, "key of the config")
        for name, kind in (("method", type), ("data", Dataset)):
            if not isinstance(getattr(self, name), str | kind):
                raise UserError(f"{name} must be a name, not {getattr(self, name)}")
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @staticmethod
    def from_mapping(values: Mapping[str, Any]) -> Request:
        """Make a request of a config file's or a command line's keys and values; None stands for the default.

        Args:
            values: fields of a request by name.

        Raises:
            UserError: if a key is unknown or a value is wrong.
        """
        known = [field.name for field in dataclasses.fields(Request)]
        for key in values:
            if key not in known:
                raise unknown_choice("key of the config", key, known)
        return Request(**{key: value for key, value in values.items() if value is not None})

    @property
    def method_name(self) -> str:
        """The name of the method, also of a class."""
        return self.method if isinstance(self.method, str) else self.method.name

    @property
    def method_class(self) -> MethodClass:
        """The class of the method, found by its name."""
        return find_method(self.method) if isinstance(self.method, str) else self.method

    def load_dataset(self, data_root: str | Path | None = None) -> Dataset:
        """The data set, loaded by its name.

        Args:
            data_root: folder that holds data sets; else `UPCL_DATA`, else the platform's cache folder.
        """
        return load_dataset(self.data, data_root) if isinstance(self.data, str) else self.data


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that determines the outcome of a run; its digest is the run's identity.

    Args:
        method: name of the method.
        options: all fields of the method.
        data: name of the data set.
        data_sha256: fingerprint of its images and labels.
        task_sizes: number of classes of each task.
        order_seed: seed of the class order.
        order: custom class order as labels; None for the seeded one.
        seed: seed of initialisation and sampling.
        memory: exemplar budget.
        sharing: how the budget is divided among classes.
        exemplars: exemplar selection.
        backbone: feature extractor; "frozen:NAME" for features of a pretrained one.
        recipes: recipes of the first and the later tasks.
        protocol: name of the protocol.
        select: rule that selects the epoch a task ends with.
        validation: share of the training data held out.
        transform: normalisation and augmentation, as `Transform.to_json` describes them.
        precision: what the backbone computes in.
        longtail: long-tailed stream; None for a balanced one.
        shards: parts of every batch that pass through the backbone by themselves.
        scenario: how images arrive; None if all images of a class arrive in its own task.

    Example:
        >>> request = Request(method="upcl", data="digits")
        >>> config = resolve(request, request.load_dataset(), request.method_class)
        >>> config.task_sizes, config.memory, len(config.digest())
        ((2, 2, 2, 2, 2), '20', 64)
    """

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
    shards: int = 1
    scenario: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON value that `config.json` holds, without the fields of `ADDED` that have their default."""
        value: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return {name: each for name, each in value.items() if name not in ADDED or each != ADDED[name]}

    def digest(self) -> str:
        """SHA-256 of the JSON value."""
        return json_sha256(self.to_json())

    @property
    def frozen_backbone(self) -> str | None:
        """Name of the pretrained backbone whose features the run is about; None if images are trained on."""
        return self.backbone.removeprefix(FROZEN) if self.backbone.startswith(FROZEN) else None

    @property
    def tail(self) -> LongTail | None:
        """The long tail, parsed."""
        return LongTail.parse(self.longtail) if self.longtail else None

    @property
    def budget(self) -> Budget:
        """The exemplar budget, parsed."""
        return Budget.parse(self.memory, self.sharing)


def resolve(request: Request, dataset: Dataset, method: MethodClass, device: torch.device | None = None) -> RunConfig:
    """Fill in what the data set, the method and the protocol decide, and check everything before anything runs.

    Args:
        request: what to run.
        dataset: the data set, loaded.
        method: the class of the method.
        device: where the run will compute, for the precision `auto`; by default the best one available.

    Raises:
        UserError: if the request cannot be carried out.

    Example:
        >>> request = Request(method="icarl", data="digits", tasks=2)
        >>> resolve(request, request.load_dataset(), request.method_class).task_sizes
        (5, 5)
    """
    if request.protocol not in PROTOCOLS:
        raise unknown_choice("protocol", request.protocol, PROTOCOLS)
    choices = PROTOCOLS[request.protocol]
    if request.shards.bit_count() != 1:
        raise UserError(f"--shards must be a power of two (1, 2, 4, ...), not {request.shards}")
    select = request.select or choices.select
    memory = dataset.memory if request.memory is None else request.memory
    tasks = dataset.tasks if request.tasks is None else request.tasks
    options = split_recipe_options(request.options)
    scenario = Scenario.parse(request.scenario or "disjoint")
    sizes = scenario.split(len(dataset.classes), tasks)
    epochs = 1 if scenario.online and request.epochs is None else request.epochs
    recipes = override_recipes(_recipes(request, dataset, method), epochs, options)
    fields = method_options(request.method_name, method, options["method"], official=choices.official)
    scenario.check(method(**fields), recipes, sizes)
    backbone = _backbone(request, dataset, method(**fields))
    slots = Budget.parse(memory).capacity(len(dataset.classes), math.prod(dataset.image_shape))
    if method.needs_exemplars and slots == 0:
        raise UserError(f"{method.title} needs exemplars: give it a memory, such as --memory 20/class")
    return RunConfig(
        method=request.method_name,
        options=fields,
        data=dataset.name,
        data_sha256=dataset.fingerprint(),
        task_sizes=tuple(sizes),
        order_seed=request.order_seed,
        order=tuple(parse_order(request.order, dataset.classes)) if request.order else None,
        seed=request.seed,
        memory=memory,
        sharing=choices.sharing,
        exemplars=request.exemplars,
        backbone=backbone,
        recipes=recipes,
        protocol=request.protocol,
        select=select,
        validation=_validation(request.validation, select),
        transform=dataset.transform.to_json(),
        precision=_precision(request, dataset, device),
        longtail=request.longtail,
        shards=request.shards,
        scenario=scenario.name,
    )


def _backbone(request: Request, dataset: Dataset, method: Method[Any]) -> str:
    """The name in the config; that of a frozen backbone has a prefix."""
    method.check_frozen(request.frozen)
    if request.frozen:
        name = request.backbone or default_pretrained()
        if name is None:
            raise UserError(
                "--frozen needs a pretrained backbone: pip install 'upcl[photos]', or name one by --backbone"
            )
        find_pretrained(name)  # raises if there is none
        return FROZEN + name
    backbone = dataset.backbone if request.backbone is None else request.backbone
    if is_pretrained(backbone) and backbone not in BACKBONES:
        raise UserError(f"{backbone} is a pretrained backbone: add --frozen")
    if backbone not in BACKBONES:
        raise unknown_choice("backbone", backbone, BACKBONES)
    return backbone


def _precision(request: Request, dataset: Dataset, device: torch.device | None) -> Precision:
    is_fast = (request.recipe or dataset.recipe) in FAST_RECIPES
    precision = request.precision or ("auto" if is_fast else "float32")
    if precision != "auto":
        return precision
    return choose_precision(device or select_device("auto"), min(dataset.image_shape[1:]))


def _validation(fraction: float | None, select: Select) -> float:
    if select != "validation":
        if fraction:
            raise UserError("--validation holds out data to select the epoch: add --select validation")
        return 0.0
    if fraction == 0:
        raise UserError("--select validation needs a share of the training data: --validation 0.1")
    return 0.1 if fraction is None else fraction


def _recipes(request: Request, dataset: Dataset, method: MethodClass) -> Recipes:
    name = dataset.recipe if request.recipe is None else request.recipe
    if name not in RECIPES:
        raise unknown_choice("recipe", name, RECIPES)
    return RECIPES[name] or method.recipes
