"""What a model consists of: its spec, its history, and the states after its most recent steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from torch import Tensor

from upcl.core.types import Samples

from .calibration import UNCALIBRATED, Calibration

Keep = Literal["pictures", "features", "none"]
MAX_STATES = 10  # of the most recent steps; older steps remain in the history only


@dataclass(frozen=True)
class HistoryEntry:
    """One step of a model: what was learned, and how accurate the model was afterwards.

    Attributes:
        when: date and time in UTC, ISO 8601.
        added: names of the new classes.
        extra: number of additional images by name of a class that was already known.
        images: number of images learned from.
        seconds: training time.
        accuracy: percent of the held-out images, by reading (`head`, `nme`).
        by_class: percent of each class's held-out images by the better reading; None for a class without any.
        note: a remark to show to users.

    Example:
        >>> HistoryEntry("2026-01-01", added=("cat", "dog"), accuracy={"head": 90.0, "nme": 95.0}).best_accuracy
        95.0
    """

    when: str
    added: tuple[str, ...] = ()
    extra: dict[str, int] = field(default_factory=dict)
    images: int = 0
    seconds: float = 0.0
    accuracy: dict[str, float | None] = field(default_factory=dict)
    by_class: dict[str, float | None] = field(default_factory=dict)
    note: str = ""

    @property
    def best_accuracy(self) -> float | None:
        """Accuracy by the better reading, in percent; None if nothing was held out."""
        return max((value for value in self.accuracy.values() if value is not None), default=None)

    def mean_accuracy(self, names: Iterable[str]) -> float | None:
        """Mean accuracy over some classes, leaving out those without held-out images.

        Args:
            names: names of classes.

        Returns:
            The mean in percent, or None if no class has held-out images.

        Example:
            >>> entry = HistoryEntry("2026-01-01", by_class={"cat": 100.0, "dog": 50.0, "owl": None})
            >>> entry.mean_accuracy(["cat", "dog", "owl"])
            75.0
        """
        values = [value for name in names if (value := self.by_class.get(name)) is not None]
        return sum(values) / len(values) if values else None


@dataclass(frozen=True, eq=False)
class ModelState:
    """The model after one step.

    Attributes:
        weights: parameters and buffers of the network, by name.
        growth: number of classes that each step added to the head.
        classes: names of the classes by label; None where a class was removed, so that labels never change.
        exemplars: stored images for rehearsal and for the class means; or the features of all images learned from, if
            a method in closed form works on features.
        held_out: images (or features) for evaluation, never learned from.
        reading: the reading that predictions use: `head`, or `nme` (nearest mean of exemplars).
        calibration: how its scores become confidence.
        trained: short digests of all images learned from, by class: none of them is ever held out later.
        tested: digests of all images held out, by class, if they are stored as features.
        assigned: digests of the photos that were given as learned from or held out, by a test folder for example. Of
            other photos that a classifier in closed form stores, `choose_held_out` decides at every step.
        strength: the regularisation of a classifier in closed form; None if it is not known, in files of older
            versions.
        method: the method of a classifier in closed form, which may change from step to step; empty: the spec's.

    Example:
        >>> from upcl.core.types import NO_SAMPLES
        >>> state = ModelState({}, growth=(2,), classes=("cat", None), exemplars=NO_SAMPLES, held_out=NO_SAMPLES)
        >>> state.class_names  # the second class was removed
        ['cat']
    """

    weights: dict[str, Tensor]
    growth: tuple[int, ...]
    classes: tuple[str | None, ...]
    exemplars: Samples
    held_out: Samples
    reading: str = "head"
    calibration: Calibration = UNCALIBRATED
    trained: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tested: dict[str, tuple[str, ...]] = field(default_factory=dict)
    assigned: frozenset[str] = frozenset()
    strength: float | None = None
    method: str = ""

    @property
    def class_names(self) -> list[str]:
        """Names of the present classes, in the order in which they were learned."""
        return [name for name in self.classes if name is not None]


@dataclass(frozen=True)
class Arrays:
    """How a model that learned from arrays (`GrowingClassifier`) interprets them.

    Attributes:
        low: the value that becomes black.
        high: the value that becomes white.
        labels: NumPy's code for the kind of the labels' type, such as `i` or `U`.

    Example:
        >>> import numpy as np
        >>> from upcl.model.arrays import images_from_array
        >>> images_from_array(np.array([[0.0, 4.0, 8.0, 16.0]]), Arrays(low=0.0, high=16.0, labels="i")).tolist()
        [[[[0, 64], [128, 255]]]]
    """

    low: float
    high: float
    labels: str


@dataclass(frozen=True)
class ModelSpec:
    """What is chosen when a model is created, and holds for all its steps (but for `memory` and `frozen`).

    Attributes:
        method: name of the method, as listed by `upcl methods`.
        options: values of all its fields.
        backbone: name of the backbone.
        channels: 1 for grey images, 3 for colour.
        size: height and width of the images in pixels.
        mean: mean of the pixels per channel, in [0, 1].
        std: standard deviation of the pixels per channel.
        memory: budget for exemplars, such as `20/class`.
        seed: seed of initialisation and training.
        pretrained: the pretrained weights that the backbone started from, if any: a name or a file.
        frozen: whether the backbone is frozen.
        features: whether exemplars and held-out images are stored as features of the frozen backbone.
        automatic: whether every step chooses the method in closed form that does best in cross-validation.
        keep: what a model in closed form keeps of the photos it learned from: their `features`, also small `pictures`
            of a few, or `none`, only sums over all of them.
        arrays: how arrays are interpreted, for a model that learned from arrays.

    Example:
        >>> spec = ModelSpec("upcl", {}, "small", channels=1, size=8, mean=(0.5,), std=(0.2,), memory="20/class")
        >>> spec.seed, spec.frozen
        (0, False)
    """

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
    features: bool = False
    automatic: bool = False
    keep: Keep = "features"
    arrays: Arrays | None = None


@dataclass(frozen=True, eq=False)
class Bundle:
    """A complete model, as stored in a `.upcl` file.

    Attributes:
        spec: what the model was created with.
        history: one entry per step.
        states: the states after the most recent steps, by the step's number.
        written_by: versions of the packages that wrote the file.
        pictures: small pictures of a few photos, as JPEG files by digest.

    Example:
        >>> from upcl.core.types import NO_SAMPLES
        >>> spec = ModelSpec("upcl", {}, "small", channels=1, size=8, mean=(0.5,), std=(0.2,), memory="20/class")
        >>> state = ModelState({}, growth=(2,), classes=("cat", None), exemplars=NO_SAMPLES, held_out=NO_SAMPLES)
        >>> bundle = Bundle(spec, (), {}).with_step(HistoryEntry("2026-01-01", added=("cat", "dog")), state)
        >>> bundle = bundle.with_step(HistoryEntry("2026-01-02", note="a class was removed"), state)
        >>> bundle.state.class_names, sorted(bundle.states), sorted(bundle.rolled_back(0).states)
        (['cat'], [0, 1], [0])
    """

    spec: ModelSpec
    history: tuple[HistoryEntry, ...]
    states: dict[int, ModelState]
    written_by: dict[str, str] = field(default_factory=dict)
    pictures: dict[str, bytes] = field(default_factory=dict)

    @property
    def state(self) -> ModelState:
        """The state after the last step."""
        return self.states[max(self.states)]

    def with_step(self, entry: HistoryEntry, state: ModelState) -> Bundle:
        """Append a step, dropping the oldest states beyond `MAX_STATES`, and what only the last one needs.

        Args:
            entry: the new entry of the history.
            state: the model after the step.
        """
        earlier = self.states
        if self.spec.keep != "none":  # from which the matrix can be computed again
            earlier = {number: replace(before, weights=_without_gram(before)) for number, before in earlier.items()}
        states = {**earlier, len(self.history): state}
        recent = sorted(states)[-MAX_STATES:]
        return replace(self, history=(*self.history, entry), states={number: states[number] for number in recent})

    def rolled_back(self, step: int) -> Bundle:
        """Return to an earlier step, dropping all later ones.

        Args:
            step: number of a step whose state is still stored.
        """
        states, method = {n: state for n, state in self.states.items() if n <= step}, self.states[step].method
        spec = replace(self.spec, method=method, options={}) if method not in ("", self.spec.method) else self.spec
        return replace(self, spec=spec, history=self.history[: step + 1], states=states)

    def with_note(self, note: str) -> Bundle:
        """Change the remark on the last step.

        Args:
            note: the new remark.
        """
        return replace(self, history=(*self.history[:-1], replace(self.history[-1], note=note)))

    def without_earlier_states(self) -> Bundle:
        """Drop all states but the last one, since they have what was removed."""
        return replace(self, states={max(self.states): self.state})


def _without_gram(state: ModelState) -> dict[str, Tensor]:
    """The weights without the Gram matrix of a classifier in closed form."""
    return {name: value for name, value in state.weights.items() if name != "head.gram"}
