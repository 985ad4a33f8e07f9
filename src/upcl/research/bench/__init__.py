"""`upcl bench`: how near the machine's limit training is, side by side in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .growth import growth
from .parts import parts
from .steps import epochs, steps
from .timing import Row

GROUPS: dict[str, Callable[[int], Iterator[Row]]] = {"steps": steps, "epochs": epochs, "parts": parts, "growth": growth}
__all__ = ["GROUPS", "Row"]
