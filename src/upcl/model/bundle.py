"""A model in one file: a zip of JSON, safetensors and PNG images, written down in docs/model-file.md. No pickle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from upcl.core.types import Samples

from .calibration import Calibration

KEPT_STATES = 10  # of the newest steps; older ones stay in the history only


@dataclass(frozen=True)
class HistoryEntry:
    """What was learned when, and how well it went."""

    when: str
    added: tuple[str, ...] = ()
    extra: dict[str, int] = field(default_factory=dict)
    images: int = 0
    seconds: float = 0.0
    accuracy: dict[str, float | None] = field(default_factory=dict)
    by_class: dict[str, float | None] = field(default_factory=dict)
    note: str = ""

    def right_on(self, names: Iterable[str]) -> float | None:
        """Mean accuracy of some classes, of those with held-out images."""
        known = [value for name in names if (value := self.by_class.get(name)) is not None]
        return sum(known) / len(known) if known else None


@dataclass(frozen=True, eq=False)
class ModelState:
    """The model after one step. `classes` has None where a class was forgotten: its place stays, its name does not.

    `trained` has short digests of the images that were learned from, by class: none of them is ever held out.
    """

    weights: dict[str, Tensor]
    growth: tuple[int, ...]
    classes: tuple[str | None, ...]
    exemplars: Samples
    held_out: Samples
    reading: str
    calibration: Calibration
    trained: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Arrays:
    """What a model that learns from arrays (`GrowingClassifier`) must know: the range of values, the labels' type."""

    low: float
    high: float
    labels: str


@dataclass(frozen=True)
class ModelSpec:
    """What was chosen when the model was made, and holds for all its steps."""

    method: str
    options: dict[str, Any]
    backbone: str
    channels: int
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    memory: str
    seed: int = 0
    pretrained: str = ""
    frozen: bool = False
    arrays: Arrays | None = None


@dataclass(frozen=True, eq=False)
class Bundle:
    """A whole model: how it was made, its history, and the states of its newest steps by the number of the step."""

    spec: ModelSpec
    history: tuple[HistoryEntry, ...]
    states: dict[int, ModelState]
    written_by: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> ModelState:
        return self.states[max(self.states)]

    def grown(self, step: HistoryEntry, state: ModelState) -> Bundle:
        """With one more step; the oldest state goes when there are too many."""
        states = {**self.states, len(self.history): state}
        kept = sorted(states)[-KEPT_STATES:]
        return replace(self, history=(*self.history, step), states={number: states[number] for number in kept})

    def rolled_back(self, step: int) -> Bundle:
        """As it was after an earlier step, which must still be kept."""
        states = {number: state for number, state in self.states.items() if number <= step}
        return replace(self, history=self.history[: step + 1], states=states)
