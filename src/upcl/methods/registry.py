"""Methods by name, their options, and how they are built."""

from __future__ import annotations

import importlib.util
import sys
import traceback
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
from .der import DER
from .efc import EFC
from .ewc import EWC
from .fetril import FeTrIL
from .finetune import Finetune
from .focal import Focal
from .foster import FOSTER
from .icarl import ICaRL
from .joint import Joint
from .la import LogitAdjustment
from .ldam import LDAM
from .lucir import LUCIR
from .lwf import LwF
from .memo import MEMO
from .nccil import NCCIL
from .ncm import NCM
from .podnet import PODNet
from .prototype_augmentation import PASS
from .ranpac import RanPAC
from .replay import Replay
from .ridge import Ridge
from .scrollnet import ScrollNet
from .setting import Setting
from .si import SI
from .slda import SLDA
from .tagfex import TagFex
from .upcl import UPCL
from .upcl_plus import UPCLPlus
from .wa import WA

MethodClass = type[Method[Any]]
"""The class of a method."""

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
    "upcl+": UPCLPlus,
    "replay": Replay,
    "ewc": EWC,
    "si": SI,
    "efc": EFC,
    "der": DER,
    "foster": FOSTER,
    "memo": MEMO,
    "podnet": PODNet,
    "pass": PASS,
    "tagfex": TagFex,
    "ncm": NCM,
    "slda": SLDA,
    "ridge": Ridge,
    "ranpac": RanPAC,
}
"""The methods by name: those of the paper's tables in their order, UPCL+, others of the field, those in closed form."""


@dataclass(frozen=True)
class Variant:
    """A method with some of its options set, under a name of its own.

    Args:
        method: the class of the method.
        title: the name in tables.
        options: the options that are set.

    Example:
        >>> Variant(UPCL, "UPCL without margin", {"margin": "none"}).method.name
        'upcl'
    """

    method: MethodClass
    title: str
    options: dict[str, Any] = field(default_factory=dict)


VARIANTS: dict[str, Variant] = {
    "baseline": Variant(ICaRL, "Baseline"),
    "cos": Variant(Cosine, "+Cos", {"margin": "none"}),
    "cos+fm": Variant(Cosine, "+Cos+FM", {"margin": "fixed"}),
    "cos+dm": Variant(Cosine, "+Cos+DM", {"margin": "prior"}),
    "up": Variant(UPCL, "+UP", {"margin": "none"}),
    "up+fm": Variant(UPCL, "+UP+FM", {"margin": "fixed"}),
    "up+dm": Variant(UPCL, "+UP+DM (UPCL)", {"margin": "prior"}),
}
"""The seven rows of the paper's ablation by name."""


def find_method(name: str) -> MethodClass:
    """Find a method by name, or load it from a file.

    Args:
        name: a key of `METHODS` or `VARIANTS`, or `FILE.py:Class` for a method of your own. The file's code is
        executed.

    Returns:
        The class of the method.

    Raises:
        UserError: If there is no such method.

    Example:
        >>> find_method("icarl").title
        'iCaRL'
        >>> find_method("icral")
        Traceback (most recent call last):
        upcl.core.errors.UserError: unknown method 'icral': did you mean icarl?
    """
    path, colon, attribute = name.rpartition(":")
    if not colon:
        if name in VARIANTS:
            return VARIANTS[name].method
        if name not in METHODS:
            raise unknown_choice("method", name, [*METHODS, *VARIANTS])
        return METHODS[name]
    if not Path(path).is_file() or not path.endswith(".py"):
        raise UserError(f"method '{name}': no such Python file: {path}")
    spec = importlib.util.spec_from_file_location(f"upcl_outside_{Path(path).stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look annotations up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UserError(f"{path} failed on import:\n{_own_traceback(error, spec.origin)}") from error
    method = getattr(module, attribute, None)
    if not (isinstance(method, type) and issubclass(method, Method)):
        names = [n for n, v in vars(module).items() if isinstance(v, type) and issubclass(v, Method)]
        raise unknown_choice(f"method in {path}", attribute, names)
    return method


def _own_traceback(error: BaseException, path: str | None) -> str:
    """The traceback from a file on, without what called it."""
    frames = error.__traceback__
    while frames and frames.tb_frame.f_code.co_filename != path:
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()


def method_options(
    name: str, method: MethodClass, given: Mapping[str, Any], *, official: bool = False
) -> dict[str, Any]:
    """Resolve the options of a method.

    Args:
        name: the name under which the method was requested; a variant sets options of its own.
        method: the class of the method.
        given: options that the user chose; they override all others.
        official: apply the method's `official_options`.

    Returns:
        A value for every option.

    Raises:
        UserError: If an option is unknown or a value does not fit.

    Example:
        >>> method_options("lwf", find_method("lwf"), {"strength": "1"})
        {'temperature': 2.0, 'strength': 1.0}
    """
    presets = {**(method.official_options if official else {}), **(VARIANTS[name].options if name in VARIANTS else {})}
    instance = method(**{**presets, **check_values(method, given, f"option of {method.name}")})
    return {field: getattr(instance, field) for field in fields_of(method)}


def build_method(method_class: MethodClass, options: Mapping[str, Any], setting: Setting, seed: int) -> Method[Any]:
    """Create a method with a new network and an empty memory. Every part of the package builds methods here.

    Args:
        method_class: the class of the method.
        options: values of its options, such as `method_options` returns.
        setting: what surrounds the method.
        seed: the run's seed, on which the initial weights depend.

    Returns:
        The method, ready to learn its first task.

    Example:
        >>> import torch
        >>> from upcl.core.budget import Budget
        >>> from upcl.core.recipes import Recipe, Recipes
        >>> from upcl.core.types import Task
        >>> from upcl.data import load_dataset
        >>> data = load_dataset("synthetic:classes=2,train=4,test=2")
        >>> setting = Setting(
        ...     backbone="small",
        ...     channels=data.channels,
        ...     transform=data.transform,
        ...     recipes=Recipes(Recipe(epochs=2), Recipe(epochs=1)),
        ...     budget=Budget(8),
        ...     selection="herding",
        ...     image_shape=data.image_shape,
        ...     num_classes=2,
        ...     device=torch.device("cpu"),
        ... )
        >>> method = build_method(METHODS["icarl"], {"temperature": 4.0}, setting, seed=0)
        >>> task = Task(index=0, num_old=0, num_new=2, train=data.train)
        >>> [stage.name for stage in method.learn(task)]  # a dry run: no stage is trained
        ['train']
        >>> len(method.memory.samples)
        8
    """
    method = method_class(**options)
    seed_all(seed, "start")
    method.start(setting)
    return method
