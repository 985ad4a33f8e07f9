"""How a model does on its held-out images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from upcl.methods import Method
from upcl.training.evaluate import READINGS

from .bundle import State
from .calibration import Calibration, calibrate
from .predictor import Reader


@dataclass(frozen=True)
class Judgement:
    """How a model does on its held-out images; `accuracy` by reading, `by_class` by the better one, in percent."""

    reading: str
    calibration: Calibration
    by_class: dict[str, float | None]
    accuracy: dict[str, float | None]


def judge(method: Method[Any], state: State) -> Judgement:
    held = state.held_out
    if not len(held):
        empty = torch.empty(0)
        unknown = {name: None for name in state.classes if name is not None}
        return Judgement("head", calibrate(torch.empty(0, 1), empty.long(), empty), {**unknown}, {})
    reader = Reader(method, state)
    seen = reader.look(held.inputs)
    right = {name: scores.argmax(1) == held.labels for name, scores in seen.scores.items()}
    accuracy = {name: 100 * float(hits.float().mean()) for name, hits in right.items()}
    reading = "head" if bool(reader.missing.all()) else max(READINGS, key=lambda name: accuracy[name])
    by_class: dict[str, float | None] = {}
    for label, name in enumerate(state.classes):
        mine = held.labels == label
        if name is not None:
            by_class[name] = 100 * float(right[reading][mine].float().mean()) if bool(mine.any()) else None
    return Judgement(reading, calibrate(seen.scores[reading], held.labels, seen.familiarity), by_class, {**accuracy})
