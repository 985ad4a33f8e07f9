"""One step of a model that grows: what is asked, what comes in, what is learned from it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.recipes import RECIPES, override_recipes, split_recipe_options
from upcl.core.types import Samples, Task
from upcl.methods import Method
from upcl.nets.pretrained import load_pretrained, read_weights
from upcl.training.engine import EpochResult
from upcl.training.environment import environment
from upcl.training.run_folder import RunFolder
from upcl.training.task_trainer import TaskTrainer

from .bundle import Bundle, HistoryEntry, ModelState
from .calibration import calibrate
from .evaluation import evaluate_held_out
from .intake import NewImages, NothingNewError, conflicting_labels, image_digest
from .spec import PRETRAINED_LR, LearnOptions, copy_weights, make_method, resolve_spec, restore

KEPT_HELD_OUT = 20  # images of each class


@dataclass(frozen=True)
class UpdateIdentity:
    """One step of a model: the same model, images and wishes make the same step, which can go on where it stopped."""

    content: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(json.dumps(self.content))
        return value

    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()


EpochCallback = Callable[[EpochResult], None]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class ModelUpdate:
    """One step of a model: what comes in, and what the model becomes."""

    def __init__(
        self, path: Path, bundle: Bundle | None, lot: NewImages, asked: LearnOptions, device: torch.device
    ) -> None:
        self.asked, self.device = asked, device
        self.spec = spec = resolve_spec(asked, lot.train, path, bundle.spec if bundle else None)
        self.bundle = bundle or Bundle(spec, (), {})
        self.before = bundle.state if bundle else None
        self.work = path.with_name(path.name + ".work")
        quick = RECIPES["quick"]
        assert quick
        options = asked.options
        if spec.pretrained and not spec.frozen:
            options = {"recipe.lr": PRETRAINED_LR, **options}
        self.recipes = override_recipes(quick, asked.epochs, split_recipe_options(options))
        self._take(lot)

    def _take(self, lot: NewImages) -> None:
        """Sort images into new classes, more of old ones, and held out; leave out what the model has already."""
        old = list(self.before.classes) if self.before else []
        self.trained = dict(self.before.trained) if self.before else {}
        known = {digest: name for name, digests in self.trained.items() for digest in digests}
        for part in (self.before.exemplars, self.before.held_out) if self.before else ():
            known |= {image_digest(x): str(old[k]) for x, k in zip(part.inputs, part.labels.tolist(), strict=True)}
        self.notes = list(conflicting_labels(lot, known))
        unseen = {
            name for name, image in zip(lot.train_names, lot.train, strict=True) if image_digest(image) not in known
        }
        new = sorted(unseen.difference(old))
        self.classes: list[str | None] = [*old, *new]
        number = {name: k for k, name in enumerate(self.classes) if name is not None}

        def chosen(images: Tensor, names: Sequence[str]) -> Samples:
            keep = [k for k, name in enumerate(names) if name in number and image_digest(images[k]) not in known]
            index = torch.tensor(keep, dtype=torch.int64)
            return Samples(images[index], torch.tensor([number[names[k]] for k in keep], dtype=torch.int64))

        every = chosen(lot.train, lot.train_names)
        self.fresh, self.extra = every[every.labels >= len(old)], every[every.labels < len(old)]
        for name, k in number.items():
            more = tuple(image_digest(image) for image in every.inputs[every.labels == k])
            self.trained[name] = (*self.trained.get(name, ()), *more)
            known |= dict.fromkeys(more, name)
        self.held = chosen(lot.held, lot.held_names)
        self.num_old, self.num_new = len(old), len(new)
        if not len(every):
            raise NothingNewError(
                "; ".join(["the model has every one of these images already: nothing to learn", *self.notes])
            )

    def learn(self, watch: EpochCallback | None) -> Bundle:
        """Train, evaluate_held_out, guard; the bundle with the new step."""
        method = make_method(self.spec, len(self.classes), self.device, self.recipes)
        if self.before:
            restore(method, self.before)
        elif self.spec.pretrained:
            path = Path(self.spec.pretrained)
            load_pretrained(method.net.backbone, self.spec.backbone, read_weights(path), path)
        seconds = self._train(method, watch) if self.num_new else self._reselect(method)
        state = self._state(method)
        found = evaluate_held_out(method, state)
        state = dataclasses.replace(state, reading=found.reading, calibration=found.calibration)
        self._guard(found.by_class)
        more = {str(self.classes[k]): int(n) for k, n in enumerate(self.extra.counts(len(self.classes))) if n}
        step = HistoryEntry(
            when=now(),
            added=tuple(str(name) for name in self.classes[self.num_old :]),
            extra=more,
            images=len(self.fresh) + len(self.extra),
            seconds=round(seconds, 1),
            accuracy=found.accuracy,
            by_class=found.by_class,
            note=self._note(method),
        )
        return dataclasses.replace(self.bundle, spec=self.spec).grown(step, state)

    def _train(self, method: Method[Any], watch: EpochCallback | None) -> float:
        weights = self.before.weights if self.before else {}
        identity = UpdateIdentity(
            {
                "model": len(self.bundle.history),
                "spec": dataclasses.asdict(self.spec),
                "recipes": dataclasses.asdict(self.recipes),
                "images": _sha256(x for part in (self.fresh, self.extra) for x in (part.inputs, part.labels)),
                "before": _sha256(weights[name] for name in sorted(weights)),  # files give them in any order
            }
        )
        stored = self.work / "config.json"
        if self.work.exists() and (not stored.is_file() or json.loads(stored.read_text()) != identity.to_json()):
            shutil.rmtree(self.work)  # of another step that was given up
        task = self._task()
        with RunFolder(self.work, identity, resume=True, save_seconds=15) as folder:

            def tell(_task: Task, _stage: str, end: EpochResult) -> None:
                if watch:
                    watch(end)

            around = environment(self.device)
            still = [method.net.backbone] if self.spec.frozen else []
            return TaskTrainer(method, folder, self.spec.seed, around, tell, still=still).learn(task)

    def _task(self) -> Task:
        index = len(self.before.growth) if self.before else 0
        return Task(index, self.num_old, self.num_new, self.fresh, self.extra)

    def _reselect(self, method: Method[Any]) -> float:
        """Without a new class there is nothing to train: only the exemplars are selected anew."""
        if not method.uses_memory:
            raise UserError(f"{method.title} keeps no exemplars, so more images of known classes change nothing")
        method.memory.update(self._task(), method.extract)
        return 0.0

    def _note(self, method: Method[Any]) -> str:
        if not self.num_new:
            return "no new class: exemplars were chosen anew, the weights stayed"
        return "" if method.uses_memory else f"{method.title} keeps no images: it never says 'none of these'"

    def _state(self, method: Method[Any]) -> ModelState:
        before = self.before.held_out if self.before else self.held[:0]
        held = before + self.held
        rows = [(held.labels == k).nonzero()[:KEPT_HELD_OUT, 0] for k in range(len(self.classes))]
        saved = method.state()
        return ModelState(
            weights=copy_weights(method),
            growth=tuple(saved["growth"]),
            classes=tuple(self.classes),
            exemplars=Samples(saved["memory"]["inputs"].cpu(), saved["memory"]["labels"].cpu()),
            held_out=held[torch.cat([torch.empty(0, dtype=torch.int64), *rows])],
            reading="head",
            calibration=calibrate(torch.empty(0, 1), torch.empty(0).long(), torch.empty(0)),
            trained=self.trained,
        )

    def _guard(self, by_class: dict[str, float | None]) -> None:
        """Refuse a step after which old classes lost too much, unless told otherwise."""
        if not self.bundle.history or self.asked.max_forgetting is None:
            return
        before = self.bundle.history[-1].by_class
        pairs = {n: (b, by_class[n]) for n, b in before.items() if b is not None and by_class.get(n) is not None}
        lost = {name: was - now for name, (was, now) in pairs.items() if now is not None}
        mean = sum(lost.values()) / len(lost) if lost else 0.0
        if mean > self.asked.max_forgetting:
            worst = sorted(lost, key=lambda name: -lost[name])[:5]
            told = ", ".join(f"{name} {lost[name]:.0f}" for name in worst)
            raise UserError(
                f"old classes would lose {mean:.0f} points on average (most: {told}), more than --most-lost "
                f"{self.asked.max_forgetting:g}: the model was left as it is. Try more --memory, more --epochs, or "
                "--most-lost 100 to take it nevertheless"
            )


def _sha256(tensors: Iterable[Tensor]) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()
