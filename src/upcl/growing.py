"""One step of a model that grows: what is asked, what comes in, what is learned from it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .answers import judge
from .bundle import Arrays, Bundle, ModelSpec, State, Step
from .calibration import calibrate
from .config import changed_recipes, check, fields_of, find_method, method_options, split_options
from .core import Recipes, Samples, Task
from .data import Transform
from .data.augment import Flip, PadCrop, RandomResizedCrop
from .data.datasets import statistics
from .data.folders import SCALE
from .data.tiny import IMAGENET_MEAN, IMAGENET_STD
from .engine import EpochEnd
from .errors import UserError
from .folder import RunFolder
from .lessons import Lessons
from .memory import Budget
from .methods import Method, Setting
from .nets.pretrained import backbone_of, load_pretrained, read_weights
from .recipes import RECIPES
from .records import environment
from .seeding import seed_all

KEPT_HELD_OUT = 20  # images of each class
EPOCHS = 30
MEMORY = "20/class"
PROJECTOR = 256  # dimensions, where the backbone stands still
MOST_LOST = 20.0  # points that old classes may lose in one step
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


@dataclass(frozen=True, eq=False)
class Lot:
    """uint8 images (N x C x size x size) to learn from and images that are held out, with a name for each."""

    train: Tensor
    train_names: Sequence[str]
    held: Tensor
    held_names: Sequence[str]


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


def spec_of(asked: Asked, train: Tensor, path: Path, made: ModelSpec | None) -> ModelSpec:
    """What a model is made with: as asked, else by default; what was made already stays, but for memory and frozen."""
    options = split_options(asked.options)["method"]
    if asked.memory and not Budget.parse(asked.memory).slots(1, train[0].numel()):
        raise UserError(f"--memory {asked.memory} keeps no image, so old classes would be forgotten: say {MEMORY}")
    if made:
        method = method_of(made.method)
        checked = check(method, options, f"option of {method.name}")
        wanted = {**checked, "method": asked.method, "backbone": asked.backbone}
        has = {**made.options, "method": made.method, "backbone": made.backbone}
        for name, value in wanted.items():
            if value is not None and value not in (has[name], made.pretrained):
                raise UserError(f"{path} was made with {name} {has[name]}: that cannot change")
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
    return ModelSpec(
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


def transform_of(spec: ModelSpec) -> Transform:
    crop = PadCrop(max(1, spec.size // 8)) if spec.size <= 32 else RandomResizedCrop(spec.size, scale=SCALE)
    return Transform(spec.mean, spec.std, (crop, Flip(0.5)))


def method_of(name: str) -> type[Method[Any]]:
    """A method of this package. A file that comes from elsewhere must not name code to run."""
    if ":" in name:
        raise UserError(f"method {name}: models in files keep to the methods that `upcl methods` lists")
    return find_method(name)


def make_method(spec: ModelSpec, num_classes: int, device: torch.device, recipes: Recipes | None = None) -> Method[Any]:
    """The method in the setting of this model, with a fresh network."""
    found = method_of(spec.method)
    method: Method[Any] = found(**method_options(spec.method, found, spec.options))
    quick = RECIPES["quick"]
    assert quick
    setting = Setting(
        backbone=spec.backbone,
        channels=spec.channels,
        transform=transform_of(spec),
        recipes=recipes or quick,
        budget=Budget.parse(spec.memory),
        selection="herding",
        image_shape=(spec.channels, spec.size, spec.size),
        num_classes=num_classes,
        device=device,
    )
    seed_all(spec.seed, "start")
    method.start(setting)
    return method


def restore(method: Method[Any], state: State) -> None:
    memory = {"inputs": state.exemplars.inputs, "labels": state.exemplars.labels}
    method.restore({"growth": list(state.growth), "net": state.weights, "memory": memory})
    method.net.eval()


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def weights_of(method: Method[Any]) -> dict[str, Tensor]:
    return {name: value.detach().cpu().clone() for name, value in method.net.state_dict().items()}


class Growth:
    """One step of a model: what comes in, and what the model becomes."""

    def __init__(self, path: Path, bundle: Bundle | None, lot: Lot, asked: Asked, device: torch.device) -> None:
        self.asked, self.device = asked, device
        self.spec = spec = spec_of(asked, lot.train, path, bundle.spec if bundle else None)
        self.bundle = bundle or Bundle(spec, (), {})
        self.before = bundle.state if bundle else None
        self.work = path.with_name(path.name + ".work")
        quick = RECIPES["quick"]
        assert quick
        options = asked.options
        if spec.pretrained and not spec.frozen:
            options = {"recipe.lr": PRETRAINED_LR, **options}
        self.recipes = changed_recipes(quick, asked.epochs, split_options(options))
        self._take(lot)

    def _take(self, lot: Lot) -> None:
        """Sort images into new classes, more of old ones, and held out; leave out what the model has already."""
        old = list(self.before.classes) if self.before else []
        self.trained = dict(self.before.trained) if self.before else {}
        known = {digest: name for name, digests in self.trained.items() for digest in digests}
        for part in (self.before.exemplars, self.before.held_out) if self.before else ():
            known |= {digest_of(x): str(old[k]) for x, k in zip(part.inputs, part.labels.tolist(), strict=True)}
        self.notes = list(_known_otherwise(lot, known))
        unseen = {name for name, image in zip(lot.train_names, lot.train, strict=True) if digest_of(image) not in known}
        new = sorted(unseen.difference(old))
        self.classes: list[str | None] = [*old, *new]
        number = {name: k for k, name in enumerate(self.classes) if name is not None}

        def chosen(images: Tensor, names: Sequence[str]) -> Samples:
            keep = [k for k, name in enumerate(names) if name in number and digest_of(images[k]) not in known]
            index = torch.tensor(keep, dtype=torch.int64)
            return Samples(images[index], torch.tensor([number[names[k]] for k in keep], dtype=torch.int64))

        every = chosen(lot.train, lot.train_names)
        self.fresh, self.extra = every[every.labels >= len(old)], every[every.labels < len(old)]
        for name, k in number.items():
            more = tuple(digest_of(image) for image in every.inputs[every.labels == k])
            self.trained[name] = (*self.trained.get(name, ()), *more)
            known |= dict.fromkeys(more, name)
        self.held = chosen(lot.held, lot.held_names)
        self.num_old, self.num_new = len(old), len(new)
        if not len(every):
            raise NothingNewError(
                "; ".join(["the model has every one of these images already: nothing to learn", *self.notes])
            )

    def learn(self, watch: Watch | None) -> Bundle:
        """Train, judge, guard; the bundle with the new step."""
        method = make_method(self.spec, len(self.classes), self.device, self.recipes)
        if self.before:
            restore(method, self.before)
        elif self.spec.pretrained:
            path = Path(self.spec.pretrained)
            load_pretrained(method.net.backbone, self.spec.backbone, read_weights(path), path)
        seconds = self._train(method, watch) if self.num_new else 0.0
        kept = {digest_of(image) for image in method.memory.samples.inputs}
        left = torch.tensor([digest_of(image) not in kept for image in self.extra.inputs], dtype=torch.bool)
        if bool(left.any()):
            method.memory.refresh(self.extra[left], len(self.classes), method.extract)
        state = self._state(method)
        found = judge(method, state)
        state = dataclasses.replace(state, reading=found.reading, calibration=found.calibration)
        self._guard(found.by_class)
        more = {str(self.classes[k]): int(n) for k, n in enumerate(self.extra.counts(len(self.classes))) if n}
        step = Step(
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

    def _train(self, method: Method[Any], watch: Watch | None) -> float:
        weights = self.before.weights if self.before else {}
        identity = StepIdentity(
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
        method.memory.samples = method.memory.samples + self.extra
        index = len(self.before.growth) if self.before else 0
        task = Task(index, self.num_old, self.num_new, self.fresh)
        with RunFolder(self.work, identity, resume=True, save_seconds=15) as folder:

            def tell(_task: Task, _stage: str, end: EpochEnd) -> None:
                if watch:
                    watch(end)

            around = environment(self.device)
            still = [method.net.backbone] if self.spec.frozen else []
            return Lessons(method, folder, self.spec.seed, around, tell, still=still).learn(task)

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
            weights=weights_of(method),
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
        if not self.bundle.history or self.asked.most_lost is None:
            return
        before = self.bundle.history[-1].by_class
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


def _known_otherwise(lot: Lot, known: dict[str, str]) -> Iterator[str]:
    """Images that the model has under the name of another class."""
    every = zip((*lot.train_names, *lot.held_names), (*lot.train, *lot.held), strict=True)
    pairs = Counter((name, known.get(digest_of(image), name)) for name, image in every)
    for (name, other), num in pairs.items():
        if name != other:
            yield (
                f"{num} images of {name} were left out, as the model knows them as {other}: to correct that, "
                f"`upcl rollback`, or `upcl forget --class '{other}'` and learn both"
            )


def _sha256(tensors: Iterable[Tensor]) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


def digest_of(image: Tensor) -> str:
    """Short: it tells the images of one model apart, and is no secret."""
    return hashlib.sha256(image.numpy().tobytes()).hexdigest()[:16]
