"""`upcl bench`: how close training is to the machine's limit, measured side by side in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from upcl.core.timing import Measurement

from .budget import measure_budget
from .growth import measure_growth
from .parts import measure_parts
from .processes import measure_processes
from .steps import measure_epochs, measure_steps

GROUPS: dict[str, Callable[[int], Iterator[Measurement]]] = {
    "steps": measure_steps,
    "epochs": measure_epochs,
    "parts": measure_parts,
    "growth": measure_growth,
    "budget": measure_budget,
    "processes": measure_processes,
}
__all__ = ["GROUPS"]
