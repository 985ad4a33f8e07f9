"""Scenarios: how the classes and images of a data set arrive, by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from upcl.core.errors import UserError, unknown_choice
from upcl.core.recipes import Recipes
from upcl.core.types import Samples
from upcl.methods import Method

from .arrivals import Arrival, Blurry, Repeat
from .protocol import split_classes

_STREAM = 7  # keeps the draws of a scenario apart from that of the class order, which has the same seed


@dataclass(frozen=True)
class ScenarioEntry:
    """A scenario as it is listed.

    Args:
        decides: what it decides: how classes are divided, when images arrive, or how often they are trained on. One
            scenario of each kind can be chosen.
        usage: how it is spelled.
        meaning: what it does.
        source: where it comes from.

    Example:
        >>> SCENARIOS["blurry"].decides
        'images'
    """

    decides: Literal["classes", "images", "epochs"]
    usage: str
    meaning: str
    source: str


SCENARIOS: dict[str, ScenarioEntry] = {
    "disjoint": ScenarioEntry(
        "images", "disjoint", "the default: all images of a class arrive in the task of the class", "Rebuffi 2017"
    ),
    "half": ScenarioEntry(
        "classes", "half", "the first task has half of the classes, the others share the rest equally", "Hou 2019"
    ),
    "blurry": ScenarioEntry(
        "images",
        "blurry:M or blurry:M:N",
        "M % of the images of a class (10) arrive after its own task, spread over all later tasks; N % of the classes "
        "(none) stay disjoint",
        "Bang 2021, Koh 2022",
    ),
    "repeat": ScenarioEntry(
        "images",
        "repeat:P",
        "a class comes back in each later task with probability P % (50), and its images are divided evenly over the "
        "tasks it is in",
        "Cossu 2022, Hemati 2023",
    ),
    "online": ScenarioEntry(
        "epochs", "online", "one pass: an image is trained on once, and again only as an exemplar", "Lopez-Paz 2017"
    ),
}
"""The scenarios by name; `docs/guides/research.md` defines them and names the sources."""


@dataclass(frozen=True)
class Scenario:
    """How the classes and images of a data set arrive.

    Args:
        half: half of the classes make up the first task.
        arrival: when images arrive; None for all images of a class in its own task.
        online: every image is trained on once.

    Example:
        >>> scenario = Scenario.parse("online+blurry:10")
        >>> scenario.arrival, scenario.online
        (Blurry(share=10.0, disjoint=0.0), True)
    """

    half: bool = False
    arrival: Arrival | None = None
    online: bool = False

    @staticmethod
    def parse(text: str) -> Scenario:
        """Parse one scenario, or several that are joined by `+`.

        Args:
            text: such as `half`, `blurry:10`, `repeat:50` or `blurry:10:50+online`; `disjoint` is the default.

        Raises:
            UserError: if a name is unknown, a number does not fit, or two scenarios decide the same.

        Example:
            >>> Scenario.parse("blury:10")
            Traceback (most recent call last):
            upcl.core.errors.UserError: unknown scenario 'blury': did you mean blurry?
        """
        chosen: dict[str, list[float]] = {}
        for part in text.split("+"):
            name, *numbers = part.strip().split(":")
            if name not in SCENARIOS:
                raise unknown_choice("scenario", name, SCENARIOS)
            decides = SCENARIOS[name].decides
            if rivals := [other for other in chosen if SCENARIOS[other].decides == decides]:
                raise UserError(f"scenario '{text}': {rivals[0]} and {name} both decide about {decides}: choose one")
            chosen[name] = [_number(name, number) for number in numbers]
        return Scenario("half" in chosen, _make_arrival(chosen), "online" in chosen)

    @property
    def name(self) -> str | None:
        """What a config stores: one spelling for each scenario, without `half`, which `task_sizes` express.

        None for the default.
        """
        parts = [str(self.arrival)] if self.arrival else []
        return "+".join([*parts, *(["online"] if self.online else [])]) or None

    def split(self, num_classes: int, tasks: int | Sequence[int]) -> list[int]:
        """The number of classes of each task.

        Args:
            num_classes: number of classes.
            tasks: number of tasks, or the number of classes of each.

        Raises:
            UserError: if the classes cannot be split like this.

        Example:
            >>> Scenario(half=True).split(100, 6), Scenario().split(10, 3)
            ([50, 10, 10, 10, 10, 10], [4, 3, 3])
        """
        if not self.half:
            return split_classes(num_classes, tasks)
        if not isinstance(tasks, int):
            sizes = ",".join(map(str, tasks))
            raise UserError(
                f"scenario half decides the number of classes of each task, and so does {sizes}: give the number of "
                f"tasks (--tasks {len(tasks)}), or leave out half"
            )
        first = (num_classes + 1) // 2
        if not 2 <= tasks <= num_classes - first + 1:
            raise UserError(
                f"scenario half: {num_classes} classes cannot be split into {tasks} tasks: choose 2 to "
                f"{num_classes - first + 1}"
            )
        return [first, *split_classes(num_classes - first, tasks - 1)]

    def check(self, method: Method[Any], recipes: Recipes, task_sizes: Sequence[int]) -> None:
        """Refuse what cannot be learned, before anything is trained or written.

        Args:
            method: the method with its options.
            recipes: the recipes of the run.
            task_sizes: number of classes of each task.

        Raises:
            UserError: with the reason, and what to choose instead.

        Example:
            >>> from upcl.methods import METHODS
            >>> lwf = METHODS["lwf"]()
            >>> Scenario.parse("blurry:10").check(lwf, lwf.recipes, [5, 5])
            Traceback (most recent call last):
            upcl.core.errors.UserError: LwF cannot learn scenario blurry:10: ...
        """
        if self.arrival and len(task_sizes) < 2:
            raise UserError(f"scenario {self.name} needs at least two tasks, such as --tasks 5")
        if self.arrival and not method.accepts_extra():
            raise UserError(
                f"{method.title} cannot learn scenario {self.name}: it keeps no exemplars, so it refuses more images "
                "of known classes; use a method with an exemplar memory such as upcl or icarl, one in closed form such "
                "as ridge, or a scenario in which classes do not come back (disjoint, half, online)"
            )
        if self.online and (recipes.first.epochs, recipes.later.epochs) != (1, 1):
            raise UserError(
                "scenario online trains one epoch per task: leave out --epochs, recipe.epochs, first.epochs and "
                "later.epochs"
            )
        if self.online and (obstacle := method.online_obstacle):
            raise UserError(f"{method.title} cannot learn online, in one epoch per task: {obstacle}")

    def arrivals(self, labels: Tensor, task_sizes: Sequence[int], seed: int) -> Tensor:
        """The index of the task in which each training image arrives: every image in one task, never before its class.

        Args:
            labels: positions in the class order (N).
            task_sizes: number of classes of each task.
            seed: seed of the class order.

        Raises:
            UserError: if no image of a known class would arrive, so that the stream would be the disjoint one.

        Example:
            >>> labels = torch.arange(4).repeat_interleave(10)
            >>> Scenario().arrivals(labels, [2, 2], 1993).bincount().tolist()
            [20, 20]
            >>> Scenario(arrival=Blurry(10)).arrivals(labels, [2, 2], 1993).bincount().tolist()
            [18, 22]
        """
        num_tasks = len(task_sizes)
        own = torch.arange(num_tasks).repeat_interleave(torch.tensor(task_sizes))
        found = own[labels]
        if not self.arrival:
            return found
        rng = np.random.RandomState([seed, _STREAM])
        rows = Samples(labels, labels).rows_by_class(len(own))
        counts = self.arrival.counts([len(each) for each in rows], (num_tasks - 1 - own).tolist(), rng)
        for k, (members, parts) in enumerate(zip(rows, counts, strict=True)):
            shuffled = members[torch.from_numpy(rng.permutation(len(members)))]
            found[shuffled] = torch.arange(int(own[k]), num_tasks).repeat_interleave(parts)
        if torch.equal(found, own[labels]):
            largest = max(map(len, rows))
            raise UserError(
                f"scenario {self.name}: no class comes back (the largest has {largest} images): raise the percentage"
            )
        return found


def _number(name: str, text: str) -> float:
    if not re.fullmatch(r"\d{1,3}(\.\d{1,6})?", text):
        raise UserError(f"scenario {name}: '{text}' is not a percentage; write {SCENARIOS[name].usage}")
    return float(text)


def _make_arrival(chosen: dict[str, list[float]]) -> Arrival | None:
    for name, numbers in chosen.items():
        if len(numbers) > {"blurry": 2, "repeat": 1}.get(name, 0):
            raise UserError(f"scenario {name} has too many numbers: write {SCENARIOS[name].usage}")
    if "blurry" in chosen:
        return Blurry(*chosen["blurry"])
    return Repeat(*chosen["repeat"]) if "repeat" in chosen else None
