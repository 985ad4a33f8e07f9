"""Methods by name."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upcl.core.errors import UserError, unknown_choice
from upcl.core.options import check_values, fields_of
from upcl.core.seeding import seed_all

from .base import Method
from .bic import BiC
from .coil import Coil
from .cosine import Cosine
from .cwd import CwD
from .fetril import FeTrIL
from .finetune import Finetune
from .focal import Focal
from .icarl import ICaRL
from .joint import Joint
from .la import LogitAdjustment
from .ldam import LDAM
from .lucir import LUCIR
from .lwf import LwF
from .nccil import NCCIL
from .scrollnet import ScrollNet
from .setting import Setting
from .upcl import UPCL
from .wa import WA

MethodClass = type[Method[Any]]
METHODS: dict[str, MethodClass] = {
    "joint": Joint,
    "finetune": Finetune,
    "focal": Focal,
    "ldam": LDAM,
    "la": LogitAdjustment,
    "lwf": LwF,
    "fetril": FeTrIL,
    "icarl": ICaRL,
    "lucir": LUCIR,
    "coil": Coil,
    "bic": BiC,
    "wa": WA,
    "cwd": CwD,
    "nccil": NCCIL,
    "scrollnet": ScrollNet,
    "upcl": UPCL,
}


@dataclass(frozen=True)
class Variant:
    """A method with some of its fields set, under a name of its own."""

    method: MethodClass
    title: str
    options: dict[str, Any] = field(default_factory=dict)


VARIANTS: dict[str, Variant] = {  # the seven rows of the paper's ablation
    "baseline": Variant(ICaRL, "Baseline"),
    "cos": Variant(Cosine, "+Cos", {"margin": "none"}),
    "cos+fm": Variant(Cosine, "+Cos+FM", {"margin": "fixed"}),
    "cos+dm": Variant(Cosine, "+Cos+DM", {"margin": "prior"}),
    "up": Variant(UPCL, "+UP", {"margin": "none"}),
    "up+fm": Variant(UPCL, "+UP+FM", {"margin": "fixed"}),
    "up+dm": Variant(UPCL, "+UP+DM (UPCL)", {"margin": "prior"}),
}


def find_method(name: str) -> MethodClass:
    """A method by its name, or from `FILE.py:Class`."""
    path, colon, attribute = name.rpartition(":")
    if not colon:
        if name in VARIANTS:
            return VARIANTS[name].method
        if name not in METHODS:
            raise unknown_choice("method", name, [*METHODS, *VARIANTS])
        return METHODS[name]
    if not Path(path).is_file() or not path.endswith(".py"):
        raise UserError(f"method '{name}': there is no Python file {path}")
    spec = importlib.util.spec_from_file_location(f"upcl_outside_{Path(path).stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look up the annotations
    spec.loader.exec_module(module)
    method = getattr(module, attribute, None)
    if not (isinstance(method, type) and issubclass(method, Method)):
        names = [n for n, v in vars(module).items() if isinstance(v, type) and issubclass(v, Method)]
        raise unknown_choice(f"method in {path}", attribute, names)
    return method


def method_options(
    name: str, method: MethodClass, given: Mapping[str, Any], *, official: bool = False
) -> dict[str, Any]:
    """Every field of a method: as given, else as its name or the official code has it, else its default."""
    presets = {**(method.official_options if official else {}), **(VARIANTS[name].options if name in VARIANTS else {})}
    instance = method(**{**presets, **check_values(method, given, f"option of {method.name}")})
    return {field: getattr(instance, field) for field in fields_of(method)}


def build_method(method_class: MethodClass, options: Mapping[str, Any], setting: Setting, seed: int) -> Method[Any]:
    """Create a method with a fresh network and an empty memory; the one place where methods are built.

    Args:
        method_class: the class of the method.
        options: values of its fields, such as `method_options` returns.
        setting: data transform, backbone, recipes, memory budget and device.
        seed: the run's seed; the initial weights depend on it.

    Returns:
        The method, ready to learn its first task.
    """
    method = method_class(**options)
    seed_all(seed, "start")
    method.start(setting)
    return method
