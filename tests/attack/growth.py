"""A long life: a model that grows, is corrected and forgets equals one that learned what is left at once."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from tests.model.feature_models import CPU, NAMES, assert_same_model, digest, feature, learn_features, spec
from upcl.model.bundle import Bundle
from upcl.model.editing import move_photo, remove_photo
from upcl.model.file import load, save
from upcl.model.learner import Learner

from .trial import Result, Trial, run_forked

STEPS, FEW = 200, 20
Photo = tuple[str, int]
"""A photo: what it shows, and a number."""


class Life:
    """A model in a file, and what it should know.

    Args:
        rng: chooses what happens.
        folder: where the file lies.
    """

    def __init__(self, rng: random.Random, folder: Path) -> None:
        self.rng, self.path = rng, folder / "m.upcl"
        self.known: dict[str, list[Photo]] = {}
        self.num = 0

    def step(self) -> None:
        """Learn photos, or change what was learned."""
        changes = [self.forget, self.rename, self.merge, self.remove, self.move] if len(self.known) > 2 else []
        self.rng.choice([self.learn] * 5 + changes)()

    def learn(self) -> None:
        shown, num = self.rng.choice(NAMES), self.rng.randint(3, 8)
        name = self.rng.choice([*self.known, f"class {self.num}"])
        photos = [(shown, self.num + number) for number in range(num)]
        self.num += num
        save(_learned(load(self.path) if self.path.exists() else None, {name: photos}), self.path)
        self.known[name] = self.known.get(name, []) + photos

    def forget(self) -> None:
        name = self.rng.choice(list(self.known))
        Learner(self.path).forget(name)
        del self.known[name]

    def rename(self) -> None:
        name = self.rng.choice(list(self.known))
        Learner(self.path).rename(name, f"{name}, renamed")
        self.known[f"{name}, renamed"] = self.known.pop(name)

    def merge(self) -> None:
        name, into = self.rng.sample(list(self.known), 2)
        Learner(self.path).merge(name, into)
        self.known[into] += self.known.pop(name)

    def remove(self) -> None:
        name = max(self.known, key=lambda name: len(self.known[name]))
        photo = self.known[name].pop(self.rng.randrange(len(self.known[name])))
        save(remove_photo(load(self.path), digest(*photo), CPU)[0], self.path)

    def move(self) -> None:
        name, into = max(self.known, key=lambda name: len(self.known[name])), self.rng.choice(list(self.known))
        if name != into:
            photo = self.known[name].pop(self.rng.randrange(len(self.known[name])))
            save(move_photo(load(self.path), digest(*photo), into, CPU)[0], self.path)
            self.known[into].append(photo)

    def compare(self) -> None:
        """The model equals one that learned everything that is left at once."""
        assert_same_model(load(self.path), _learned(None, self.known))


def _learned(bundle: Bundle | None, photos: dict[str, list[Photo]]) -> Bundle:
    pairs = [(photo, name) for name, found in photos.items() for photo in found]
    rows = [(feature(*photo), name, digest(*photo)) for photo, name in pairs]
    return learn_features(bundle, rows, [], spec())


def _live(rng: random.Random, folder: Path) -> Result:
    steps = STEPS if rng.random() < 0.1 else FEW

    def live() -> None:
        life = Life(rng, folder)
        for _ in range(steps):
            life.step()
        life.compare()

    return Counter({run_forked(live, folder, seconds=1800).verdict(): steps})


def trials() -> dict[str, Trial]:
    """The kind of this module."""
    return {"growth": _live}
