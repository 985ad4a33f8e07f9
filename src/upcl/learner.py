"""A model that keeps growing: learn folders of images, add classes later, name what is in a picture."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import Tensor

from .answers import Answer, Reader, judge
from .bundle import Arrays, Bundle, Making, ModelFileError, State, Step, load, save
from .calibration import calibrate
from .config import changed_recipes, check, fields_of, find_method, method_options, split_options
from .core import Recipes, Samples, Task
from .data import Transform
from .data.augment import Flip, PadCrop, RandomResizedCrop
from .data.datasets import statistics
from .data.folders import SCALE, hold_out
from .data.health import ImageFile, examine, readable
from .data.pixels import decode_now
from .data.tiny import IMAGENET_MEAN, IMAGENET_STD
from .engine import EpochEnd, choose_device
from .errors import UserError
from .folder import RunFolder
from .lessons import Lessons
from .memory import Budget
from .methods import Method, Setting
from .nets.pretrained import backbone_of, load_pretrained, read_weights
from .recipes import RECIPES
from .records import environment
from .seeding import isolated, seed_all

HELD_OUT = 20  # percent of each class's images
KEPT_HELD_OUT = 20  # images of each class
EPOCHS = 30
MEMORY = "20/class"
PROJECTOR = 256  # dimensions, where the backbone stands still
MOST_LOST = 20.0  # points that old classes may lose in one step
PRETRAINED_SIZE = 224  # pixels that pretrained networks are used to
PRETRAINED_LR = 0.01  # gentler than from the beginning
MEASURED = 2000  # images, for mean and deviation
LARGEST_OWN = 64  # pixels that images are brought to where nothing else is said


class NothingNewError(UserError):
    """All images that were given are known."""


@dataclass(frozen=True)
class Asked:
    """What can be said when a model is made or grows; None leaves it as it is, or to the defaults."""

    method: str | None = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    backbone: str | None = None
    memory: str | None = None
    size: int | None = None
    frozen: bool = False
    epochs: int = EPOCHS
    most_lost: float | None = MOST_LOST
    arrays: Arrays | None = None


@dataclass(frozen=True)
class StepIdentity:
    """One step of a model: the same model, images and wishes make the same step, which can go on where it stopped."""

    content: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(json.dumps(self.content))
        return value

    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()


Watch = Callable[[EpochEnd], None]


def is_file(backbone: str | None) -> bool:
    """Whether a backbone is asked for by a file of weights, not by its name."""
    return backbone is not None and (
        "/" in backbone or Path(backbone).suffix in (".safetensors", ".pt", ".pth", ".bin")
    )


class Learner:
    """A model in a file.

    >>> Learner("birds.upcl").learn("photos").predict(["one.jpg"])  # doctest: +SKIP
    array(['robin'], dtype='<U5')
    """

    def __init__(self, path: str | Path, *, device: str = "auto") -> None:
        self.path, self.device = Path(path), choose_device(device)
        self.bundle: Bundle | None = load(self.path) if self.path.exists() else None
        self.notes: list[str] = []  # on the last folder
        self._reader: Reader | None = None
        self._stamp = _stamp(self.path)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Alone with the file, as it is now, whoever wrote it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{self.path}.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise UserError(f"{self.path} is being changed by another process: wait until it is done") from None
        try:
            if self._stamp != _stamp(self.path):
                self.bundle, self._reader = load(self.path) if self.path.exists() else None, None
            yield
        finally:
            self._stamp = _stamp(self.path)
            Path(lock.lock_file).unlink(missing_ok=True)
            lock.release()

    @property
    def classes(self) -> list[str]:
        """The names that it knows, in the order they were learned."""
        return [name for name in self.bundle.state.classes if name is not None] if self.bundle else []

    def whole(self) -> Bundle:
        if self.bundle is None:
            raise UserError(f"{self.path} has learned nothing yet: `upcl learn FOLDER --model {self.path}`")
        return self.bundle

    # learning

    def learn(
        self, folder: str | Path, asked: Asked | None = None, watch: Watch | None = None, **wishes: Any
    ) -> Learner:
        """Learn the classes of a folder, new ones and more of old ones, and rewrite the file when all of it is done.

        Wishes are fields of `Asked`: `learn("birds", epochs=10, memory="50/class")`.
        """
        asked = dataclasses.replace(asked or Asked(), **wishes)
        health, good = examine(Path(folder))
        self.notes = list(health.notes())
        train_files, held_files = _split(good)
        if not train_files:
            path, reason = health.broken[0] if health.broken else (readable(folder), "it has none to learn from")
            raise UserError(f"no image to learn from in {readable(folder)} can be read, such as {path}: {reason}")
        if strange := sorted({f.label for f in held_files} - {f.label for f in train_files} - set(self.classes)):
            self.notes.append(f"classes of the test part without images to learn from were left out: {strange[0]}, ...")
        with self._changing():
            size, channels = self._shape(asked, good)
            train, held = (
                decode_now([file.path for file in files], size, channels, Path(folder).name)
                for files in (train_files, held_files)
            )
            names = [file.label for file in train_files], [file.label for file in held_files]
            return self._learn(train, names[0], held, names[1], asked, watch)

    def learn_arrays(
        self,
        train: Tensor,
        train_names: Sequence[str],
        held: Tensor,
        held_names: Sequence[str],
        asked: Asked,
        watch: Watch | None = None,
    ) -> Learner:
        """The same with uint8 images (N x C x H x W) and a name for each."""
        with self._changing():
            return self._learn(train, train_names, held, held_names, asked, watch)

    def _learn(
        self,
        train: Tensor,
        train_names: Sequence[str],
        held: Tensor,
        held_names: Sequence[str],
        asked: Asked,
        watch: Watch | None,
    ) -> Learner:
        making = self._making(asked, train)
        with isolated():
            lesson = _Lesson(self, making, asked)
            lesson.take(train, train_names, held, held_names)
            self.bundle = lesson.learn(watch)
        self._reader = None
        save(self.bundle, self.path)
        shutil.rmtree(lesson.work, ignore_errors=True)
        return self

    def _shape(self, asked: Asked, good: Sequence[ImageFile]) -> tuple[int, int]:
        if self.bundle:
            if asked.size not in (None, self.bundle.making.size):
                raise UserError(
                    f"{self.path} was made with images of {self.bundle.making.size} pixels; leave --size out"
                )
            return self.bundle.making.size, self.bundle.making.channels
        sizes = {(file.width, file.height) for file in good}
        own = next(iter(sizes)) if len(sizes) == 1 else (0, 1)
        size = own[0] if own[0] == own[1] and own[0] <= LARGEST_OWN else LARGEST_OWN
        if is_file(asked.backbone):
            return asked.size or PRETRAINED_SIZE, 3
        return asked.size or size, 1 if all(file.grey for file in good) else 3

    def _making(self, asked: Asked, train: Tensor) -> Making:
        options = split_options(asked.options)["method"]
        if asked.memory and not Budget.parse(asked.memory).slots(1, train[0].numel()):
            raise UserError(f"--memory {asked.memory} keeps no image, so old classes would be forgotten: say {MEMORY}")
        if self.bundle:
            made = self.bundle.making
            method = method_of(made.method)
            checked = check(method, options, f"option of {method.name}")
            wanted = {**checked, "method": asked.method, "backbone": asked.backbone}
            has = {**made.options, "method": made.method, "backbone": made.backbone}
            for name, value in wanted.items():
                if value is not None and value not in (has[name], made.pretrained):
                    raise UserError(f"{self.path} was made with {name} {has[name]}: that cannot change")
            return dataclasses.replace(made, memory=asked.memory or made.memory, frozen=made.frozen or asked.frozen)
        name = asked.method or "upcl"
        method = method_of(name)
        if asked.frozen and "projector" in fields_of(method):
            options = {"projector": PROJECTOR, **options}  # else nothing but fixed prototypes would follow the backbone
        options = method_options(name, method, options)
        if method(**options).needs_total:
            raise UserError(
                f"{method.title} with these options must know the number of classes in advance, so it cannot grow from "
                "folders: choose upcl, icarl, wa, ..."
            )
        mean, std = statistics(train[:: max(1, len(train) // MEASURED)].split(64))
        backbone = asked.backbone or ("medium" if train.shape[-1] <= LARGEST_OWN else "resnet18-7x7")
        pretrained = ""
        if is_file(asked.backbone):
            pretrained = str(asked.backbone)
            backbone = backbone_of(read_weights(Path(pretrained)), Path(pretrained))
            mean, std = IMAGENET_MEAN, IMAGENET_STD  # what such weights were learned with
        return Making(
            method=name,
            options=options,
            backbone=backbone,
            channels=train.shape[1],
            size=train.shape[-1],
            mean=mean,
            std=std,
            memory=asked.memory or MEMORY,
            pretrained=pretrained,
            frozen=asked.frozen,
            arrays=asked.arrays,
        )

    # looking

    @property
    def reader(self) -> Reader:
        """The model with its weights in, ready to be asked."""
        if self._reader is None:
            state = self.whole().state
            self._reader = Reader(self.restored(state), state)
        return self._reader

    def restored(self, state: State) -> Method[Any]:
        """The method as a state of this model has it."""
        try:
            with isolated():
                method = make_method(self.whole().making, len(state.classes), self.device)
                restore(method, state)
        except (RuntimeError, KeyError, TypeError, ValueError, UserError) as error:
            raise ModelFileError(f"{self.path} is damaged, its weights do not fit its network: {error}") from None
        return method

    def answers(self, images: Tensor, top: int = 5) -> list[Answer]:
        """What uint8 images (N x C x size x size) show."""
        return self.reader.answers(self.reader.look(images), top) if len(images) else []

    def predict(self, images: Sequence[str | Path]) -> np.ndarray:
        """A name for each image file; `none of these` for what is unlike anything learned."""
        making = self.whole().making
        decoded = decode_now([Path(path) for path in images], making.size, making.channels, "images")
        return np.array([answer.name for answer in self.answers(decoded)])

    # changing

    def rollback(self, step: int) -> Learner:
        """Return to the state after an earlier step; what came later is gone from the file."""
        with self._changing():
            bundle = self.whole()
            if step not in bundle.states:
                kept = ", ".join(map(str, sorted(bundle.states)))
                raise UserError(f"step {step} is not kept in {self.path}: choose from {kept}")
            self.bundle, self._reader = bundle.rolled_back(step), None
            save(self.bundle, self.path)
        return self

    def forget(self, name: str) -> Learner:
        """Remove a class, its exemplars and statistics, and every earlier state, which would still have them."""
        with self._changing():
            self._forget(name)
        return self

    def _forget(self, name: str) -> None:
        bundle, state = self.whole(), self.whole().state
        if name not in self.classes:
            raise UserError(f"{self.path} knows no class '{name}': it knows {', '.join(self.classes[:20])}")
        if len(self.classes) == 1:
            raise UserError(f"'{name}' is the only class: remove the file instead")
        label = state.classes.index(name)
        kept = dataclasses.replace(
            state,
            classes=tuple(None if each == name else each for each in state.classes),
            exemplars=state.exemplars[state.exemplars.labels != label],
            held_out=state.held_out[state.held_out.labels != label],
            trained={key: value for key, value in state.trained.items() if key != name},
        )
        history = tuple(_unnamed(step, name) for step in bundle.history)
        method = self.restored(kept)
        method.net.head.forget(label)
        kept = dataclasses.replace(kept, weights=_weights(method))
        found = judge(method, kept)
        kept = dataclasses.replace(kept, reading=found.reading, calibration=found.calibration)
        step = Step(when=_now(), accuracy=found.accuracy, by_class=found.by_class, note="a class was removed")
        self.bundle = Bundle(bundle.making, (*history, step), {len(history): kept})
        self._reader = None
        save(self.bundle, self.path)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Tells one version of a file from another."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns


def _weights(method: Method[Any]) -> dict[str, Tensor]:
    return {name: value.detach().cpu().clone() for name, value in method.net.state_dict().items()}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _unnamed(step: Step, name: str) -> Step:
    hidden = "(removed)"
    return dataclasses.replace(
        step,
        added=tuple(hidden if each == name else each for each in step.added),
        more={key: value for key, value in step.more.items() if key != name},
        by_class={key: value for key, value in step.by_class.items() if key != name},
    )


def _split(good: Sequence[ImageFile]) -> tuple[list[ImageFile], list[ImageFile]]:
    """Images to learn from and images held out: those of a test folder, or a share of each class."""
    tested = [file for file in good if file.part == "test"]
    train = [file for file in good if file.part == "train"]
    if tested:
        return train, tested
    distinct = {label: len({f.pixels for f in train if f.label == label}) for label in {f.label for f in train}}
    alone = [file for file in train if distinct[file.label] == 1]  # too few to hold one out
    kept, held = hold_out([file for file in train if distinct[file.label] > 1], HELD_OUT, 0)
    return [*kept, *alone], held


def transform_of(making: Making) -> Transform:
    crop = PadCrop(max(1, making.size // 8)) if making.size <= 32 else RandomResizedCrop(making.size, scale=SCALE)
    return Transform(making.mean, making.std, (crop, Flip(0.5)))


def method_of(name: str) -> type[Method[Any]]:
    """A method of this package. A file that comes from elsewhere must not name code to run."""
    if ":" in name:
        raise UserError(f"method {name}: models in files keep to the methods that `upcl methods` lists")
    return find_method(name)


def make_method(making: Making, num_classes: int, device: torch.device, recipes: Recipes | None = None) -> Method[Any]:
    """The method in the setting of this model, with a fresh network."""
    found = method_of(making.method)
    method: Method[Any] = found(**method_options(making.method, found, making.options))
    quick = RECIPES["quick"]
    assert quick
    setting = Setting(
        backbone=making.backbone,
        channels=making.channels,
        transform=transform_of(making),
        recipes=recipes or quick,
        budget=Budget.parse(making.memory),
        selection="herding",
        image_shape=(making.channels, making.size, making.size),
        num_classes=num_classes,
        device=device,
    )
    seed_all(making.seed, "start")
    method.start(setting)
    return method


def restore(method: Method[Any], state: State) -> None:
    memory = {"inputs": state.exemplars.inputs, "labels": state.exemplars.labels}
    method.restore({"growth": list(state.growth), "net": state.weights, "memory": memory})
    method.net.eval()


class _Lesson:
    """One step: what comes in, what it becomes."""

    def __init__(self, learner: Learner, making: Making, asked: Asked) -> None:
        self.learner, self.making, self.asked = learner, making, asked
        self.before = learner.bundle.state if learner.bundle else None
        self.work = learner.path.with_name(learner.path.name + ".work")
        quick = RECIPES["quick"]
        assert quick
        options = asked.options
        if making.pretrained and not making.frozen:
            options = {"recipe.lr": PRETRAINED_LR, **options}
        self.recipes = changed_recipes(quick, asked.epochs, split_options(options))

    def take(self, train: Tensor, train_names: Sequence[str], held: Tensor, held_names: Sequence[str]) -> None:
        """Sort images into new classes, more of old ones, and held out; leave out what the model has already."""
        old = list(self.before.classes) if self.before else []
        new = sorted({name for name in train_names if name not in old})
        self.classes: list[str | None] = [*old, *new]
        number = {name: k for k, name in enumerate(self.classes) if name is not None}
        self.trained = dict(self.before.trained) if self.before else {}
        known = {digest for digests in self.trained.values() for digest in digests}
        if self.before:
            known |= {_digest(image) for image in (*self.before.exemplars.inputs, *self.before.held_out.inputs)}

        def chosen(images: Tensor, names: Sequence[str]) -> Samples:
            keep = [k for k, name in enumerate(names) if name in number and _digest(images[k]) not in known]
            index = torch.tensor(keep, dtype=torch.int64)
            return Samples(images[index], torch.tensor([number[names[k]] for k in keep], dtype=torch.int64))

        every = chosen(train, train_names)
        self.fresh, self.extra = every[every.labels >= len(old)], every[every.labels < len(old)]
        for name, k in number.items():
            more = tuple(_digest(image) for image in every.inputs[every.labels == k])
            self.trained[name] = (*self.trained.get(name, ()), *more)
            known |= set(more)
        self.held = chosen(held, held_names)
        self.num_old, self.num_new = len(old), len(new)
        if not len(every):
            raise NothingNewError("the model has every one of these images already: nothing to learn")

    def learn(self, watch: Watch | None) -> Bundle:
        """Train, judge, guard; the bundle with the new step."""
        method = make_method(self.making, len(self.classes), self.learner.device, self.recipes)
        if self.before:
            restore(method, self.before)
        elif self.making.pretrained:
            path = Path(self.making.pretrained)
            load_pretrained(method.net.backbone, self.making.backbone, read_weights(path), path)
        seconds = self._train(method, watch) if self.num_new else 0.0
        kept = {_digest(image) for image in method.memory.samples.inputs}
        left = torch.tensor([_digest(image) not in kept for image in self.extra.inputs], dtype=torch.bool)
        if bool(left.any()):
            method.memory.refresh(self.extra[left], len(self.classes), method.extract)
        state = self._state(method)
        found = judge(method, state)
        state = dataclasses.replace(state, reading=found.reading, calibration=found.calibration)
        self._guard(found.by_class)
        more = {str(self.classes[k]): int(n) for k, n in enumerate(self.extra.counts(len(self.classes))) if n}
        step = Step(
            when=_now(),
            added=tuple(str(name) for name in self.classes[self.num_old :]),
            more=more,
            images=len(self.fresh) + len(self.extra),
            seconds=round(seconds, 1),
            accuracy=found.accuracy,
            by_class=found.by_class,
            note=self._note(method),
        )
        earlier = self.learner.bundle or Bundle(self.making, (), {})
        return Bundle(self.making, earlier.history, earlier.states).grown(step, state)

    def _train(self, method: Method[Any], watch: Watch | None) -> float:
        identity = StepIdentity(
            {
                "model": len(self.learner.bundle.history) if self.learner.bundle else 0,
                "making": dataclasses.asdict(self.making),
                "recipes": dataclasses.asdict(self.recipes),
                "images": hashlib.sha256(
                    b"".join(
                        part.inputs.numpy().tobytes() + part.labels.numpy().tobytes()
                        for part in (self.fresh, self.extra)
                    )
                ).hexdigest(),
                "before": hashlib.sha256(
                    b"".join(value.numpy().tobytes() for value in self.before.weights.values()) if self.before else b""
                ).hexdigest(),
            }
        )
        stored = self.work / "config.json"
        if self.work.exists() and (not stored.is_file() or json.loads(stored.read_text()) != identity.to_json()):
            shutil.rmtree(self.work)  # of another step that was given up
        method.memory.samples = method.memory.samples + self.extra
        index = len(self.before.growth) if self.before else 0
        task = Task(index, self.num_old, self.num_new, self.fresh)
        with RunFolder(self.work, identity, resume=True, save_seconds=15) as folder:

            def tell(_task: Task, _stage: str, end: EpochEnd) -> None:
                if watch:
                    watch(end)

            around = environment(self.learner.device)
            still = [method.net.backbone] if self.making.frozen else []
            return Lessons(method, folder, self.making.seed, around, tell, still=still).learn(task)

    def _note(self, method: Method[Any]) -> str:
        if not self.num_new:
            return "no new class: exemplars were chosen anew, the weights stayed"
        return "" if method.uses_memory else f"{method.title} keeps no images: it never says 'none of these'"

    def _state(self, method: Method[Any]) -> State:
        before = self.before.held_out if self.before else self.held[:0]
        held = before + self.held
        rows = [(held.labels == k).nonzero()[:KEPT_HELD_OUT, 0] for k in range(len(self.classes))]
        saved = method.state()
        return State(
            weights=_weights(method),
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
        bundle = self.learner.bundle
        if bundle is None or self.asked.most_lost is None:
            return
        before = bundle.history[-1].by_class
        pairs = {n: (b, by_class[n]) for n, b in before.items() if b is not None and by_class.get(n) is not None}
        lost = {name: was - now for name, (was, now) in pairs.items() if now is not None}
        mean = sum(lost.values()) / len(lost) if lost else 0.0
        if mean > self.asked.most_lost:
            worst = sorted(lost, key=lambda name: -lost[name])[:5]
            told = ", ".join(f"{name} {lost[name]:.0f}" for name in worst)
            raise UserError(
                f"old classes would lose {mean:.0f} points on average (most: {told}), more than --most-lost "
                f"{self.asked.most_lost:g}: the model was left as it is. Try more --memory, more --epochs, or "
                "--most-lost 100 to take it nevertheless"
            )


def _digest(image: Tensor) -> str:
    """Short: it tells the images of one model apart, and is no secret."""
    return hashlib.sha256(image.numpy().tobytes()).hexdigest()[:16]
