"""The methods: one file per paper, and what they share. To add one: a file in this folder and a line in
`registry.py`."""

from .base import LinearMethod, Method
from .registry import METHODS, VARIANTS, MethodClass, Variant, build_method, find_method, method_options
from .setting import Setting

__all__ = [
    "METHODS",
    "VARIANTS",
    "LinearMethod",
    "Method",
    "MethodClass",
    "Setting",
    "Variant",
    "build_method",
    "find_method",
    "method_options",
]
