"""The methods by name. To add one: a file beside this one, and a line here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .base import LinearMethod, Method, Setting


def _method(path: str) -> type[Method[Any]]:
    module, _, name = path.partition(".")
    method: type[Method[Any]] = getattr(import_module(f".{module}", __name__), name)
    return method


METHODS: dict[str, type[Method[Any]]] = {
    "joint": _method("joint.Joint"),
    "finetune": _method("finetune.Finetune"),
    "icarl": _method("icarl.ICarl"),
    "upcl": _method("upcl.UPCL"),
}

__all__ = ["METHODS", "LinearMethod", "Method", "Setting"]
