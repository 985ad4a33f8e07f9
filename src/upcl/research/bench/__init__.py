"""`upcl bench`: how close training is to the machine's limit, measured side by side in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .growth import growth
from .parts import parts
from .steps import epochs, steps
from .timing import Measurement

GROUPS: dict[str, Callable[[int], Iterator[Measurement]]] = {
    "steps": steps,
    "epochs": epochs,
    "parts": parts,
    "growth": growth,
}
__all__ = ["GROUPS", "Measurement"]
