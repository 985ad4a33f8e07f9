"""A model that keeps growing: learn folders of images, add classes later, name what is in a picture."""

from __future__ import annotations

import dataclasses
import difflib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from upcl.core.errors import UserError, unknown_choice
from upcl.core.files import exclusive_lock
from upcl.core.seeding import preserve_rng_state
from upcl.data.io.images import decode_now
from upcl.data.io.scan import ImageFile, printable_path, scan_folder
from upcl.data.loaders.folder import hold_out
from upcl.methods import Method
from upcl.training.environment import select_device

from .bundle import Bundle, HistoryEntry, ModelState
from .evaluation import evaluate_held_out
from .file import ModelFileError, load, save
from .intake import NewImages
from .predictor import Prediction, Predictor
from .spec import LARGEST_OWN, LearnOptions, copy_weights, is_weights_file, make_method, restore
from .update import EpochCallback, ModelUpdate, now

HELD_OUT = 20  # percent of each class's images
PRETRAINED_SIZE = 224  # pixels that pretrained networks are used to


class Learner:
    """A model in a file.

    >>> Learner("birds.upcl").learn("photos").predict(["one.jpg"])  # doctest: +SKIP
    array(['robin'], dtype='<U5')
    """

    def __init__(self, path: str | Path, *, device: str = "auto") -> None:
        self.path, self.device = Path(path), select_device(device)
        self.bundle: Bundle | None = load(self.path) if self.path.exists() else None
        self.notes: list[str] = []  # on the last folder
        self._reader: Predictor | None = None
        self._stamp = _stamp(self.path)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Alone with the file, as it is now, whoever wrote it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        busy = f"{self.path} is being changed by another process; wait until it has finished"
        with exclusive_lock(self.path.with_name(f".{self.path.name}.lock"), busy=busy):
            if self._stamp != _stamp(self.path):
                self.bundle, self._reader = load(self.path) if self.path.exists() else None, None
            try:
                yield
            finally:
                self._stamp = _stamp(self.path)

    @property
    def classes(self) -> list[str]:
        """The names that it knows, in the order they were learned."""
        return [name for name in self.bundle.state.classes if name is not None] if self.bundle else []

    def require_bundle(self) -> Bundle:
        if self.bundle is None:
            beside = sorted(path.name for path in self.path.parent.glob("*.upcl"))
            near = difflib.get_close_matches(self.path.name, beside, n=1)
            hint = f"did you mean {near[0]}?" if near else f"`upcl learn FOLDER --model {self.path}` makes it"
            raise UserError(f"there is no model {self.path}: {hint}")
        return self.bundle

    # learning

    def learn(
        self, folder: str | Path, asked: LearnOptions | None = None, watch: EpochCallback | None = None, **wishes: Any
    ) -> Learner:
        """Learn the classes of a folder, new ones and more of old ones, and rewrite the file when all of it is done.

        Wishes are fields of `LearnOptions`: `learn("birds", epochs=10, memory="50/class")`.
        """
        asked = dataclasses.replace(asked or LearnOptions(), **wishes)
        health, good = scan_folder(Path(folder))
        self.notes = list(health.notes())
        train_files, held_files = _split(good)
        if not train_files:
            path, reason = health.broken[0] if health.broken else (printable_path(folder), "it has none to learn from")
            raise UserError(f"no image to learn from in {printable_path(folder)} can be read, such as {path}: {reason}")
        if strange := sorted({f.label for f in held_files} - {f.label for f in train_files} - set(self.classes)):
            self.notes.append(f"classes of the test part without images to learn from were left out: {strange[0]}, ...")
        with self._changing():
            size, channels = self._shape(asked, good)
            train, held = (
                decode_now([file.path for file in files], size, channels, Path(folder).name)
                for files in (train_files, held_files)
            )
            names = [file.label for file in train_files], [file.label for file in held_files]
            return self._grow(NewImages(train, names[0], held, names[1]), asked, watch)

    def learn_images(self, lot: NewImages, asked: LearnOptions) -> Learner:
        """The same with images in memory."""
        with self._changing():
            return self._grow(lot, asked, None)

    def _grow(self, lot: NewImages, asked: LearnOptions, watch: EpochCallback | None) -> Learner:
        with preserve_rng_state():
            growth = ModelUpdate(self.path, self.bundle, lot, asked, self.device)
            self.notes += growth.notes
            self.bundle = growth.learn(watch)
        self._reader = None
        save(self.bundle, self.path)
        shutil.rmtree(growth.work, ignore_errors=True)
        return self

    def _shape(self, asked: LearnOptions, good: Sequence[ImageFile]) -> tuple[int, int]:
        if self.bundle:
            if asked.size not in (None, self.bundle.spec.size):
                raise UserError(f"{self.path} was made with images of {self.bundle.spec.size} pixels; leave --size out")
            return self.bundle.spec.size, self.bundle.spec.channels
        sizes = {(file.width, file.height) for file in good}
        own = next(iter(sizes)) if len(sizes) == 1 else (0, 1)
        size = own[0] if own[0] == own[1] and own[0] <= LARGEST_OWN else LARGEST_OWN
        if is_weights_file(asked.backbone):
            return asked.size or PRETRAINED_SIZE, 3
        return asked.size or size, 1 if all(file.grey for file in good) else 3

    # looking

    @property
    def reader(self) -> Predictor:
        """The model with its weights in, ready to be asked."""
        if self._reader is None:
            state = self.require_bundle().state
            self._reader = Predictor(self.restored(state), state)
        return self._reader

    def restored(self, state: ModelState) -> Method[Any]:
        """The method as a state of this model has it."""
        try:
            with preserve_rng_state():
                method = make_method(self.require_bundle().spec, len(state.classes), self.device)
                restore(method, state)
        except (RuntimeError, KeyError, TypeError, ValueError, UserError) as error:
            raise ModelFileError(f"{self.path} is damaged, its weights do not fit its network: {error}") from None
        return method

    def answers(self, images: Tensor, top: int = 5) -> list[Prediction]:
        """What uint8 images (N x C x size x size) show."""
        return self.reader.answers(self.reader.look(images), top) if len(images) else []

    def predict(self, images: str | Path | Sequence[str | Path]) -> np.ndarray:
        """A name for each image file; `none of these` for what is unlike anything learned."""
        spec = self.require_bundle().spec
        paths = [images] if isinstance(images, str | Path) else images
        decoded = decode_now([Path(path) for path in paths], spec.size, spec.channels, "images")
        return np.array([answer.name for answer in self.answers(decoded)])

    # changing

    def rollback(self, step: int) -> Learner:
        """Return to the state after an earlier step; what came later is gone from the file."""
        with self._changing():
            bundle = self.require_bundle()
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
        bundle, state = self.require_bundle(), self.require_bundle().state
        if name not in self.classes:
            raise unknown_choice(f"class of {self.path.name}", name, self.classes)
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
        kept = dataclasses.replace(kept, weights=copy_weights(method))
        found = evaluate_held_out(method, kept)
        kept = dataclasses.replace(kept, reading=found.reading, calibration=found.calibration)
        step = HistoryEntry(when=now(), accuracy=found.accuracy, by_class=found.by_class, note="a class was removed")
        self.bundle = Bundle(bundle.spec, (*history, step), {len(history): kept})
        self._reader = None
        save(self.bundle, self.path)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Tells one version of a file from another."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns


def _unnamed(step: HistoryEntry, name: str) -> HistoryEntry:
    hidden = "(removed)"
    return dataclasses.replace(
        step,
        added=tuple(hidden if each == name else each for each in step.added),
        extra={key: value for key, value in step.extra.items() if key != name},
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
