"""Faults of the machine below the program: full disks, failing operations, no locks, clocks that jump."""

from __future__ import annotations

import fcntl
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

from upcl.core.identity import differences

from .kills import TARGETS, Reference, Target, make_reference, train_target
from .strikes import ERRORS, failing_at, limited_files
from .trial import Action, Result, Trial, Verdict, command, expect, run_forked


def _failing_fsync(action: Action, rng: random.Random) -> Action:
    """The action, in which some synchronisations of files fail."""
    first, error = rng.randrange(6), rng.choice(ERRORS[:2])

    def run() -> None:
        calls, original = [0], os.fsync

        def fsync(file: int) -> None:
            calls[0] += 1
            if calls[0] > first:
                raise OSError(error, os.strerror(error))
            original(file)

        setattr(os, "fsync", fsync)  # noqa: B010 (its type is another one)
        action()

    return run


def _without_locks(action: Action, _: random.Random) -> Action:
    """The action on a file system that has no locks."""

    def run() -> None:
        def flock(*_: object) -> None:
            raise OSError(37, "No locks available")

        fcntl.flock = flock
        action()

    return run


def _jumping_clock(action: Action, rng: random.Random) -> Action:
    """The action while the clock jumps by up to ten years in both directions."""
    jumps = random.Random(rng.random())

    def run() -> None:
        original, offset = time.time, [0.0]

        def now() -> float:
            if jumps.random() < 0.05:
                offset[0] = jumps.uniform(-3e8, 3e8)
            return original() + offset[0]

        time.time = now
        action()

    return run


MACHINE_FAULTS: list[Callable[[Action, random.Random], Action]] = [_failing_fsync, _without_locks, _jumping_clock]


def _fault(rng: random.Random, reference: Reference, action: Action, folder: Path) -> Action:
    kind = rng.randrange(3)
    if kind == 0:
        return failing_at(rng.randrange(reference.operations), rng.choice(ERRORS), action, folder)
    if kind == 1:
        return limited_files(rng.randrange(1, reference.size), action, kill=False)
    return rng.choice(MACHINE_FAULTS)(action, rng)


def _trial(target: Target) -> Trial:
    reference = make_reference(target)

    def trial(rng: random.Random, folder: Path) -> Result:
        target.prepare(folder)
        words = target.words(folder)
        faulty = run_forked(_fault(rng, reference(), command(*words), folder), folder)
        verdict = faulty.verdict()
        if verdict is Verdict.REFUSED and (target.repeatable or target.identify(folder) is None):
            ended = run_forked(command(*words), folder)
            expect(ended.verdict() is Verdict.RIGHT, f"refused after the fault is gone: {ended.output}")
        changed = differences(reference().identity, target.identify(folder))
        expect(not changed, f"{verdict}, then {changed[:5]}\n{faulty.output}")
        return verdict

    return trial


def trials() -> dict[str, Trial]:
    """The kinds of this module: the same commands as in `kills`."""
    targets = [
        train_target("finetune"),
        train_target("upcl"),
        *(target for group in TARGETS.values() for target in group),
    ]
    choices = [_trial(target) for target in targets]
    return {"machine": lambda rng, folder: rng.choice(choices)(rng, folder)}
