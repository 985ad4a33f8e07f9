"""A growing model in the manner of scikit-learn: arrays in, labels out."""

from __future__ import annotations

import contextlib
import math
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from .bundle import Arrays
from .intake import NewImages, NothingNewError
from .learner import HELD_OUT, Learner
from .spec import EPOCHS, LearnOptions

LABELS: dict[str, Callable[[str], Any]] = {  # from a class's name back to its label, by the kind of an array's type
    "b": {"True": True, "False": False}.__getitem__,
    "i": int,
    "u": int,
    "f": float,
    "U": str,
}


class GrowingClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns images in arrays; `partial_fit` adds classes, and needs no list of them in advance.

    `X` is N x size x size (grey) or N x size x size x 3, of any number type; rows of numbers (N x features) are laid
    out as grey squares. uint8 is taken as it is, other types are scaled by the range of the first call, which the model
    keeps. With a `path` the model is kept in that file and can be used by every `upcl` command.
    """

    learner_: Learner
    classes_: np.ndarray

    def __init__(
        self,
        path: str | None = None,
        *,
        method: str = "upcl",
        epochs: int = EPOCHS,
        memory: str = "20/class",
        backbone: str | None = None,
        device: str = "auto",
    ) -> None:
        self.path = path
        self.method = method
        self.epochs = epochs
        self.memory = memory
        self.backbone = backbone
        self.device = device

    def fit(self, X: Any, y: Any) -> GrowingClassifier:  # noqa: N803
        """Learn from the beginning."""
        self.__dict__.pop("learner_", None)
        return self._learn(X, y, anew=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> GrowingClassifier:  # noqa: ARG002, N803
        """Learn new classes, and more images of old ones, on top of what is known: also by the file at `path`."""
        return self._learn(X, y, anew=False)

    def _learn(self, X: Any, y: Any, *, anew: bool) -> GrowingClassifier:  # noqa: N803
        first = not hasattr(self, "learner_")
        X, y = validate_data(self, X, y, reset=first, allow_nd=True)  # noqa: N806
        check_classification_targets(y)
        if first:
            self._open(anew=anew)
        if y.dtype.kind not in LABELS:
            y = y.astype(str)
        arrays = self._arrays or Arrays(*_range(X), labels=y.dtype.kind)
        if self.learner_.classes and arrays.labels != y.dtype.kind:
            known = ", ".join(self.learner_.classes[:5])
            raise ValueError(f"{self.learner_.path} knows classes ({known}) that are no labels of the kind of y")
        held = _held_out(y)
        images, names = _images(X, arrays), [str(label) for label in y.tolist()]
        train, kept = np.flatnonzero(~held), np.flatnonzero(held)
        wanted: dict[str, Any] = {
            "memory": self.memory,
            "epochs": self.epochs,
            "max_forgetting": None,
            "arrays": arrays,
        }
        if not self.learner_.classes:
            wanted |= {"method": self.method, "backbone": self.backbone or "small"}
        with contextlib.suppress(NothingNewError):
            some, others = images[torch.from_numpy(train)], images[torch.from_numpy(kept)]
            lot = NewImages(some, [names[k] for k in train], others, [names[k] for k in kept])
            self.learner_.learn_images(lot, LearnOptions(**wanted))
        self._name_classes()
        return self

    def _open(self, *, anew: bool) -> None:
        path = Path(self.path) if self.path else Path(tempfile.mkdtemp(prefix="upcl-")) / "model.upcl"
        if not self.path:
            weakref.finalize(self, shutil.rmtree, path.parent, ignore_errors=True)
        self.learner_ = Learner(path, device=self.device)
        if anew:
            self.learner_.bundle = None  # the file stays whole until the new model is

    @property
    def _arrays(self) -> Arrays | None:
        """How arrays are read, once that is settled; a model that learned photos has plain names and 0 to 255."""
        bundle = self.learner_.bundle
        return bundle.spec.arrays or Arrays(0, 255, "U") if bundle else None

    def _name_classes(self) -> None:
        """`classes_` in the order of scikit-learn, and the columns of our scores that they are."""
        assert self._arrays
        kind = LABELS[self._arrays.labels]
        self.classes_ = np.unique([kind(name) for name in self.learner_.classes])
        place = {kind(name): k for k, name in enumerate(self.learner_.reader.state.classes) if name is not None}
        self._columns = [place[label] for label in self.classes_.tolist()]

    def _ready(self) -> None:
        """A model that was stored by an earlier process needs no fit."""
        if not hasattr(self, "classes_") and self.path and Path(self.path).exists():
            self._open(anew=False)
            self._name_classes()
        check_is_fitted(self, "classes_")

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Calibrated confidence, a column for each of `classes_`."""
        self._ready()
        X = validate_data(self, X, reset=not hasattr(self, "n_features_in_"), allow_nd=True)  # noqa: N806
        reader = self.learner_.reader
        assert self._arrays
        return reader.confidence(reader.look(_images(X, self._arrays)))[:, self._columns].numpy()

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The likeliest label of each image."""
        sure = self.predict_proba(X)
        labels: np.ndarray = self.classes_[sure.argmax(1)]
        return labels


def _range(X: np.ndarray) -> tuple[float, float]:  # noqa: N803
    return (0.0, 255.0) if X.dtype == np.uint8 else (float(np.min(X)), float(np.max(X)))


def _images(X: np.ndarray, arrays: Arrays) -> Tensor:  # noqa: N803
    """uint8, N x channels x size x size."""
    if X.ndim == 2:
        side = math.ceil(math.sqrt(X.shape[1]))
        X = np.pad(X, ((0, 0), (0, side * side - X.shape[1])), constant_values=arrays.low)  # noqa: N806
        X = X.reshape(len(X), side, side)  # noqa: N806
    if X.ndim not in (3, 4) or X.shape[1] != X.shape[2] or X.shape[3:] not in ((), (1,), (3,)):
        raise ValueError(f"X must hold square images, N x size x size or N x size x size x 3; got {X.shape}")
    scaled = np.clip((X - arrays.low) / max(arrays.high - arrays.low, 1e-12), 0, 1) * 255
    pixels = torch.from_numpy(np.ascontiguousarray(np.rint(scaled).astype(np.uint8)))
    return pixels[:, None] if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2).contiguous()


def _held_out(y: np.ndarray) -> np.ndarray:
    """Every so many of each class, where it has enough."""
    held = np.zeros(len(y), dtype=bool)
    every = 100 // HELD_OUT
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        held[members[every - 1 :: every]] = True
    return held
