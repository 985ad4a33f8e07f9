"""The methods by name. To add one: a file beside this one, and a line here."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from .base import LinearMethod, Method
from .setting import Setting

MethodClass = type[Method[Any]]


def _method(path: str) -> MethodClass:
    module, _, name = path.partition(".")
    method: MethodClass = getattr(import_module(f".{module}", __name__), name)
    return method


METHODS: dict[str, MethodClass] = {
    "joint": _method("joint.Joint"),
    "finetune": _method("finetune.Finetune"),
    "focal": _method("focal.Focal"),
    "ldam": _method("ldam.LDAM"),
    "la": _method("la.LogitAdjustment"),
    "lwf": _method("lwf.LwF"),
    "fetril": _method("fetril.FeTrIL"),
    "icarl": _method("icarl.ICarl"),
    "lucir": _method("lucir.Lucir"),
    "coil": _method("coil.Coil"),
    "bic": _method("bic.BiC"),
    "wa": _method("wa.WA"),
    "cwd": _method("cwd.CwD"),
    "nccil": _method("nccil.NCCIL"),
    "scrollnet": _method("scrollnet.ScrollNet"),
    "upcl": _method("upcl.UPCL"),
}


@dataclass(frozen=True)
class Variant:
    """A method with some of its fields set, under a name of its own."""

    method: MethodClass
    title: str
    options: dict[str, Any] = field(default_factory=dict)


_COSINE, _UPCL = _method("cosine.Cosine"), METHODS["upcl"]

VARIANTS: dict[str, Variant] = {  # the seven rows of the paper's ablation
    "baseline": Variant(METHODS["icarl"], "Baseline"),
    "cos": Variant(_COSINE, "+Cos", {"margin": "none"}),
    "cos+fm": Variant(_COSINE, "+Cos+FM", {"margin": "fixed"}),
    "cos+dm": Variant(_COSINE, "+Cos+DM", {"margin": "prior"}),
    "up": Variant(_UPCL, "+UP", {"margin": "none"}),
    "up+fm": Variant(_UPCL, "+UP+FM", {"margin": "fixed"}),
    "up+dm": Variant(_UPCL, "+UP+DM (UPCL)", {"margin": "prior"}),
}

__all__ = ["METHODS", "VARIANTS", "LinearMethod", "Method", "MethodClass", "Setting", "Variant"]
