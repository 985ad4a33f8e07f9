"""One update of a model: train one task, evaluate on held-out images, accept or reject the result."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from upcl.core.errors import UserError
from upcl.core.files import is_partial, parse_json
from upcl.core.lease import NAME as LEASE
from upcl.core.types import Samples, Task
from upcl.methods import Method
from upcl.training.engine import EpochResult
from upcl.training.environment import environment
from upcl.training.run_folder import RunFolder
from upcl.training.task_trainer import Stopwatch, TaskTrainer

from .bundle import Bundle, HistoryEntry, ModelState
from .closed_form import fit_classifier, is_closed_form, sort_features
from .evaluation import HeldOutResult, evaluate_held_out
from .extractor import backbone_weights, load_pretrained_weights
from .photo_sides import PhotoSides, decide_sides, decides_sides, known_photos
from .plan import IDENTITY_KEYS, UpdateIdentity, UpdatePlan, identify
from .spec import copy_weights, make_method, restore_state
from .stored_sums import changed_gram, stored_statistics, weights_to_store

MAX_HELD_OUT = 20  # images per class
SAVE_SECONDS = 15  # between two checkpoints of an update
WORK_FILES = {"config.json", "events.jsonl", "checkpoints"}

EpochCallback = Callable[[EpochResult], None]


def apply_update(plan: UpdatePlan, on_epoch: EpochCallback | None = None) -> Bundle:
    """Train, evaluate and check an update.

    Args:
        plan: the update.
        on_epoch: called after every epoch.

    Returns:
        The model with one more step.

    Raises:
        UserError: if known classes lose more accuracy than accepted. The work folder then keeps the trained weights, so
            the same update with a larger `max_forgetting` is accepted without training again.

    Example:
        >>> import tempfile
        >>> from upcl.model.intake import NewImages
        >>> from upcl.model.plan import plan_update
        >>> from upcl.model.options import LearnOptions
        >>> pixels = torch.arange(4 * 64, dtype=torch.uint8).view(4, 1, 8, 8)
        >>> images = NewImages(pixels[:3], ["cat", "dog", "cat"], pixels[3:], ["dog"])
        >>> path, options = Path(tempfile.mkdtemp()) / "pets.upcl", LearnOptions(epochs=1, backbone="small")
        >>> bundle = apply_update(plan_update(path, None, images, options, torch.device("cpu")))
        >>> bundle.history[0].added, bundle.history[0].images, len(bundle.state.held_out)
        (('cat', 'dog'), 3, 1)
    """
    if is_closed_form(plan.spec):
        return _apply_closed_form(plan)
    method = _prepare_method(plan)
    seconds = _train_task(plan, method, on_epoch) if plan.intake.num_new else _reselect_exemplars(plan, method)
    state = _collect_state(plan, method)
    result = evaluate_held_out(method, plan.spec, state)
    if plan.history:
        check_forgetting(plan.history[-1].by_class, result.by_class, plan.max_forgetting)
    bundle = dataclasses.replace(plan.bundle or Bundle(plan.spec, (), {}), spec=plan.spec)
    return bundle.with_step(_history_entry(plan, method, result, seconds), result.apply(state))


def _apply_closed_form(plan: UpdatePlan) -> Bundle:
    """Compute the classifier from the features of all photos, old and new."""
    stopwatch, intake, before = Stopwatch(), plan.intake, plan.before
    sides, assigned = _photo_sides(plan)
    samples, keeps = sides.learned, plan.spec.keep != "none"
    backbone = backbone_weights(before) if before else _prepare_method(plan).net.backbone.state_dict()
    gram = changed_gram(before, samples, sides.trained, intake.classes) if keeps else None
    sums = None if keeps or before is None else stored_statistics(before, plan.device)
    strength = before.strength if sums and before else None  # chosen once: there is nothing to choose it again with
    fitted = fit_classifier(plan.spec, samples, len(intake.classes), backbone, plan.device, gram, sums, strength)
    state = ModelState(
        weights=weights_to_store(fitted.method, len(samples), fitted.spec.keep, before),
        growth=(len(intake.classes),),
        classes=intake.classes,
        exemplars=samples if keeps else samples[:0],
        held_out=sides.held_out,
        trained=sides.trained,
        tested=sides.tested,
        assigned=assigned,
        strength=fitted.strength,
        method=fitted.spec.method,
    )
    result = evaluate_held_out(fitted.method, fitted.spec, state)
    if plan.history:
        check_forgetting(plan.history[-1].by_class, result.by_class, plan.max_forgetting)
    entry = _history_entry(plan, fitted.method, result, stopwatch.seconds())
    entry = dataclasses.replace(entry, note=fitted.note, **_learned_counts(state, before, intake.num_old))
    bundle = dataclasses.replace(plan.bundle or Bundle(fitted.spec, (), {}), spec=fitted.spec)
    return bundle.with_step(entry, result.apply(state))


def _photo_sides(plan: UpdatePlan) -> tuple[PhotoSides, frozenset[str]]:
    """All photos, old and new, divided into learned and held-out ones, and which of them were assigned."""
    intake, before = plan.intake, plan.before
    earlier = before.exemplars if before else intake.train[:0]
    held_out = (before.held_out if before else intake.held_out[:0]) + intake.held_out
    sides = PhotoSides(earlier + intake.train + intake.extra, intake.trained, held_out, intake.tested)
    if not decides_sides(plan.spec):  # the features of earlier photos are gone
        held_out, tested = sort_features(held_out, intake.tested, intake.classes)
        return sides._replace(held_out=held_out, tested=tested), frozenset()
    assigned = (before.assigned if before else frozenset()) | intake.assigned
    sides = decide_sides(sides, intake.classes, assigned)
    present = (digest for part in (sides.trained, sides.tested) for found in part.values() for digest in found)
    return sides, assigned.intersection(present)


def _learned_counts(state: ModelState, before: ModelState | None, num_old: int) -> dict[str, Any]:
    """How many photos a step learned from, and how many of them were of each class that was known before."""
    known = known_photos(before) if before else set()
    counts = {name: len(set(found) - known) for name, found in state.trained.items()}
    old = {name: counts.get(name, 0) for name in state.classes[:num_old] if name is not None}
    return {"images": sum(counts.values()), "extra": {name: num for name, num in old.items() if num}}


def check_forgetting(
    before: Mapping[str, float | None], after: Mapping[str, float | None], max_forgetting: float | None
) -> None:
    """Reject an update if the mean accuracy on known classes drops too much.

    Args:
        before: accuracy by class before the update, in percent; None for a class without held-out images.
        after: the same after the update.
        max_forgetting: accepted drop in percentage points; None accepts any.

    Raises:
        UserError: if the mean drop over the classes in both is larger.

    Example:
        >>> check_forgetting({"cat": 90.0}, {"cat": 75.0, "dog": 80.0}, max_forgetting=20)
        >>> check_forgetting({"cat": 90.0}, {"cat": 60.0, "dog": 80.0}, max_forgetting=20)
        Traceback (most recent call last):
        ...
        upcl.core.errors.UserError: known classes would lose 30 percentage points on average (most: cat 30), ...
    """
    if max_forgetting is None:
        return
    drops = {
        name: value - now
        for name, value in before.items()
        if value is not None and (now := after.get(name)) is not None
    }
    mean = sum(drops.values()) / len(drops) if drops else 0.0
    if mean > max_forgetting:
        worst = ", ".join(f"{name} {drops[name]:.0f}" for name in sorted(drops, key=lambda name: -drops[name])[:5])
        raise UserError(
            f"known classes would lose {mean:.0f} percentage points on average (most: {worst}), more than "
            f"--max-forgetting {max_forgetting:g}: the model is unchanged. Try a larger --memory, more --epochs, or "
            "accept the update with --max-forgetting 100"
        )


def utc_now() -> str:
    """Return the current date and time in UTC, ISO 8601 with seconds.

    Example:
        >>> utc_now()  # doctest: +SKIP
        '2026-11-17T12:00:00+00:00'
    """
    return datetime.now(UTC).isoformat(timespec="seconds")


def _prepare_method(plan: UpdatePlan) -> Method[Any]:
    """The method as the last step left it, or fresh, perhaps with pretrained weights."""
    method = make_method(plan.spec, len(plan.intake.classes), plan.device, plan.recipes, plan.precision)
    if plan.before:
        restore_state(method, plan.before)
    else:
        load_pretrained_weights(method, plan.spec)
    return method


def _train_task(plan: UpdatePlan, method: Method[Any], on_epoch: EpochCallback | None) -> float:
    """Train the task with checkpoints in the work folder; return the seconds."""
    identity = identify(plan)
    _discard_other_update(plan.work_folder, identity)

    def report(_task: Task, _stage: str, result: EpochResult) -> None:
        if on_epoch:
            on_epoch(result)

    frozen = [method.net.backbone] if plan.spec.frozen else []
    with RunFolder(plan.work_folder, identity, resume=True, save_seconds=SAVE_SECONDS) as folder:
        trainer = TaskTrainer(method, folder, plan.spec.seed, environment(plan.device), report, frozen=frozen)
        return trainer.learn(plan.task)


def _reselect_exemplars(plan: UpdatePlan, method: Method[Any]) -> float:
    """Without a new class there is nothing to train: only the exemplars are selected again, which takes no time."""
    method.memory.update(plan.task, method.extract, method.net.num_bytes)
    return 0.0


def _collect_state(plan: UpdatePlan, method: Method[Any]) -> ModelState:
    """The state after training, not yet evaluated."""
    saved = method.state()
    return ModelState(
        weights=copy_weights(method),
        growth=tuple(saved["growth"]),
        classes=plan.intake.classes,
        exemplars=Samples(saved["memory"]["inputs"].cpu(), saved["memory"]["labels"].cpu()),
        held_out=_merge_held_out(plan),
        trained=plan.intake.trained,
        tested=plan.intake.tested if plan.spec.features else {},
    )


def _merge_held_out(plan: UpdatePlan) -> Samples:
    """Earlier held-out images first, by class, at most `MAX_HELD_OUT` of each."""
    earlier = plan.before.held_out if plan.before else plan.intake.held_out[:0]
    samples = earlier + plan.intake.held_out
    rows = [(samples.labels == label).nonzero()[:MAX_HELD_OUT, 0] for label in range(len(plan.intake.classes))]
    return samples[torch.cat(rows)]


def _history_entry(plan: UpdatePlan, method: Method[Any], result: HeldOutResult, seconds: float) -> HistoryEntry:
    intake, note = plan.intake, ""
    if not intake.num_new:
        note = "no new classes: exemplars were selected again, the weights are unchanged"
    elif not method.uses_memory:
        note = f'{method.title} keeps no images, so it never predicts "none of these"'
    return HistoryEntry(
        when=utc_now(),
        added=intake.added,
        extra=intake.extra_counts,
        images=len(intake.train) + len(intake.extra),
        seconds=round(seconds, 1),
        accuracy=result.accuracy,
        by_class=result.by_class,
        note=note,
    )


def _discard_other_update(folder: Path, identity: UpdateIdentity) -> None:
    """Remove the work folder of another update, which was given up."""
    if not folder.exists():
        return
    if not is_work_folder(folder):
        raise UserError(f"{folder} is in the way: it does not hold an update of a model; rename it")
    if _stored_identity(folder) != identity.to_json():
        shutil.rmtree(folder)


def is_work_folder(folder: Path) -> bool:
    """Whether a folder holds an update of a model, perhaps one that had only begun, so that it may be removed. Its mark
    is the identity of an update in `config.json`.

    Args:
        folder: the folder.

    Example:
        >>> is_work_folder(Path("holiday photos"))
        False
    """
    if not folder.is_dir():
        return False
    names = {path.name for path in folder.iterdir() if not (is_partial(path) or _is_lease(path))}
    return not names or (names <= WORK_FILES and _stored_identity(folder).keys() == IDENTITY_KEYS)


def _is_lease(path: Path) -> bool:
    return path.name.startswith(LEASE) and path.is_file()


def _stored_identity(folder: Path) -> dict[str, Any]:
    try:
        stored = parse_json((folder / "config.json").read_text())
    except (ValueError, OSError):
        return {}
    return stored if isinstance(stored, dict) else {}


def remove_work_folder(folder: Path) -> None:
    """Remove the checkpoints of an update that is finished or can no longer be; any other folder stays.

    Args:
        folder: the folder.

    Example:
        >>> remove_work_folder(Path("holiday photos"))
    """
    if is_work_folder(folder):
        shutil.rmtree(folder, ignore_errors=True)
