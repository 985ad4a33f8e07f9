"""How a model does on its held-out images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from upcl.methods import Method
from upcl.training.evaluate import READINGS

from .bundle import ModelState
from .calibration import Calibration, calibrate
from .predictor import Predictor


@dataclass(frozen=True)
class HeldOutResult:
    """How a model does on its held-out images; `accuracy` by reading, `by_class` by the better one, in percent."""

    reading: str
    calibration: Calibration
    by_class: dict[str, float | None]
    accuracy: dict[str, float | None]


def evaluate_held_out(method: Method[Any], state: ModelState) -> HeldOutResult:
    held = state.held_out
    if not len(held):
        empty = torch.empty(0)
        unknown = {name: None for name in state.classes if name is not None}
        return HeldOutResult("head", calibrate(torch.empty(0, 1), empty.long(), empty), {**unknown}, {})
    reader = Predictor(method, state)
    seen = reader.look(held.inputs)
    right = {name: scores.argmax(1) == held.labels for name, scores in seen.scores.items()}
    accuracy = {name: 100 * float(hits.float().mean()) for name, hits in right.items()}
    reading = "head" if bool(reader.missing.all()) else max(READINGS, key=lambda name: accuracy[name])
    by_class: dict[str, float | None] = {}
    for label, name in enumerate(state.classes):
        mine = held.labels == label
        if name is not None:
            by_class[name] = 100 * float(right[reading][mine].float().mean()) if bool(mine.any()) else None
    return HeldOutResult(
        reading, calibrate(seen.scores[reading], held.labels, seen.familiarity), by_class, {**accuracy}
    )
