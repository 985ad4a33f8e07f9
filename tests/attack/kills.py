"""Kills at random places of commands: what is run again ends as if nothing had happened."""

from __future__ import annotations

import functools
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upcl.core.identity import differences, json_sha256, weights_sha256
from upcl.methods import METHODS
from upcl.model.bundle import Bundle
from upcl.model.file import load
from upcl.research.record import Record

from .materials import STREAM, learn_words, make_features_model, make_model, write_grid, write_photos
from .strikes import counted, killed_at, limited_files
from .trial import Action, Result, Trial, Verdict, command, expect, run_forked

MAX_KILLS = 4  # in one trial


@dataclass(frozen=True)
class Reference:
    """A command that nothing disturbed.

    Args:
        identity: what it ended with.
        seconds: how long it took.
        operations: number of its operations on files.
        size: of the largest file that it wrote.
    """

    identity: Any
    seconds: float
    operations: int
    size: int


@dataclass(frozen=True)
class Target:
    """A command to kill.

    Args:
        prepare: puts what the command needs into a folder.
        words: of the command, given the folder.
        identify: what the command ended with; None if it has not ended.
        repeatable: whether the command can be run again after it has ended.
        sweeps: whether it removes what a killed one left.
    """

    prepare: Callable[[Path], object]
    words: Callable[[Path], list[str]]
    identify: Callable[[Path], Any]
    repeatable: bool = True
    sweeps: bool = True


def strike(rng: random.Random, reference: Reference, action: Action, folder: Path) -> tuple[Action, float | None]:
    """An action that is killed at a random operation or in a random write; or a moment to kill it at."""
    kind = rng.randrange(3)
    if kind == 0:
        return killed_at(rng.randrange(reference.operations), action, folder), None
    if kind == 1:
        return limited_files(rng.randrange(1, reference.size), action, kill=True), None
    return action, rng.uniform(0, reference.seconds)


def kill_and_repeat(target: Target, rng: random.Random, folder: Path, reference: Reference) -> Result:
    """Kill a command several times, then let it end; count the kills."""
    target.prepare(folder)
    kills = 0
    for _ in range(rng.randint(1, MAX_KILLS)):
        if not target.repeatable and target.identify(folder) is not None:
            break  # a kill after the last write: nothing is left to do
        action, moment = strike(rng, reference, command(*target.words(folder)), folder)
        ended = run_forked(action, folder, kill_after=moment)
        if not ended.killed:
            ended.verdict()
            break
        kills += 1
    if target.repeatable or target.identify(folder) is None:
        ended = run_forked(command(*target.words(folder)), folder)
        expect(ended.verdict() is Verdict.RIGHT, f"refused after {kills} kills: {ended.output}")
    changed = differences(reference.identity, target.identify(folder))
    expect(not changed, f"after {kills} kills: {changed[:5]}")
    leftover = [path.name for path in folder.rglob("*.partial*")]
    expect(not (leftover and target.sweeps), f"left behind: {leftover}")
    return Counter({Verdict.RIGHT: kills})


def make_reference(target: Target) -> Callable[[], Reference]:
    """A function that runs the command undisturbed when it is first called."""

    @functools.cache
    def reference() -> Reference:
        with tempfile.TemporaryDirectory(prefix="upcl-attack-") as root:
            folder = Path(root) / "trial"
            folder.mkdir()
            target.prepare(folder)
            ended = run_forked(counted(command(*target.words(folder)), folder), folder)
            expect(ended.verdict() is Verdict.RIGHT, f"undisturbed: {ended.output}")
            operations = int((Path(root) / "trial.operations").read_text())
            size = max(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            return Reference(target.identify(folder), ended.seconds, operations, size)

    return reference


def make_trial(target: Target) -> Trial:
    """A trial that kills a command."""
    reference = make_reference(target)
    return lambda rng, folder: kill_and_repeat(target, rng, folder, reference())


def train_target(method: str) -> Target:
    def words(_: Path) -> list[str]:
        return ["train", method, *STREAM, "--save-seconds", "0", "--out", "run", "--resume"]

    def identify(folder: Path) -> Any:
        record = Record.read(folder / "run") if (folder / "run" / "record.json").exists() else None
        return record.reproducible_part() if record and record.finished else None

    return Target(lambda _: None, words, identify)


@functools.cache
def _train_trials() -> list[Trial]:
    return [make_trial(train_target(method)) for method in METHODS]


def kill_train(rng: random.Random, folder: Path) -> Result:
    """Kills of `train` with any method."""
    return rng.choice(_train_trials())(rng, folder)


def bundle_identity(bundle: Bundle) -> Any:
    """What a model knows, without times."""
    return [
        {
            "classes": list(state.classes),
            "weights": weights_sha256(state.weights),
            "exemplars": json_sha256(state.exemplars.inputs.double().sum(1).flatten().tolist()),
        }
        for _, state in sorted(bundle.states.items())
    ]


def _model_identity(folder: Path) -> Any:
    return bundle_identity(load(folder / "m.upcl"))


def _learn(words: Sequence[str], num_classes: int, prepare: Callable[[Path], object]) -> Target:
    def identify(folder: Path) -> Any:
        if not (folder / "m.upcl").exists() or len(load(folder / "m.upcl").state.class_names) < num_classes:
            return None
        return _model_identity(folder)

    return Target(prepare, lambda _: list(words), identify, repeatable=False)


def _with_model(folder: Path, method: str) -> None:
    shutil.copy(make_model(method), folder / "m.upcl")
    write_photos(folder)


def _with_features(folder: Path) -> None:
    shutil.copy(make_features_model(), folder / "m.upcl")


def _edit(*words: str, done: Callable[[Bundle], bool], prepare: Callable[[Path], object] = _with_features) -> Target:
    def identify(folder: Path) -> Any:
        bundle = load(folder / "m.upcl")  # whatever happened: the model can be read
        return bundle_identity(bundle) if done(bundle) else None

    return Target(prepare, lambda _: list(words), identify, repeatable=False)


def _export_identity(folder: Path) -> Any:
    file = folder / "m.onnx"
    return file.stat().st_size if file.exists() else None


def _grid_identity(folder: Path) -> Any:
    records = [Record.read(path.parent) for path in sorted(folder.glob("runs/*/record.json"))]
    return [record.reproducible_part() for record in records if record.finished]


GROWING = [name for name, method in METHODS.items() if not method().needs_num_classes]
"""Methods that a model can grow with."""


def _methods_targets(method: str) -> dict[str, list[Target]]:
    """Commands that work with a model of this method."""
    with_model = functools.partial(_with_model, method=method)
    export = ["export", "m.upcl", "--onnx", "m.onnx"]
    return {
        "kill-learn": [
            _learn(learn_words("first", method), 3, write_photos),
            _learn(learn_words("second", method), 6, with_model),
        ],
        "kill-forget": [
            _edit("forget", "m.upcl", "--class", "kind 1", done=_has_forgotten("kind 1"), prepare=with_model),
        ],
        "kill-export": [Target(with_model, lambda _: export, _export_identity, sweeps=False)],
    }


def _has_forgotten(name: str) -> Callable[[Bundle], bool]:
    return lambda bundle: name not in bundle.state.class_names


def _grid_target(methods: Sequence[str]) -> Target:
    words = ["grid", "grid.yaml", "--out", "runs", "--jobs", "2"]
    return Target(functools.partial(write_grid, methods=methods), lambda _: words, _grid_identity)


def _all_targets() -> dict[str, list[Target]]:
    """Commands other than `train`, each with every method."""
    targets: dict[str, list[Target]] = {
        "kill-learn": [],
        "kill-forget": [
            _edit("forget", "m.upcl", "--class", "ant", done=_has_forgotten("ant")),
            _edit("rename", "m.upcl", "ant", "new", done=lambda bundle: "new" in bundle.state.class_names),
            _edit("merge", "m.upcl", "ant", "cat", done=_has_forgotten("ant")),
        ],
        "kill-export": [],
        "kill-grid": [_grid_target(list(METHODS)[start : start + 2]) for start in range(0, len(METHODS), 2)],
    }
    for method in GROWING:
        for kind, found in _methods_targets(method).items():
            targets[kind] += found
    return targets


TARGETS = _all_targets()


def trials() -> dict[str, Trial]:
    """The kinds of this module."""

    def any_of(targets: Sequence[Target]) -> Trial:
        choices = [make_trial(target) for target in targets]
        return lambda rng, folder: rng.choice(choices)(rng, folder)

    return {"kill-train": kill_train, **{kind: any_of(targets) for kind, targets in TARGETS.items()}}
