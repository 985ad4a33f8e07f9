"""A growing model in the manner of scikit-learn: arrays in, labels out."""

from __future__ import annotations

import math
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from .learner import EPOCHS, HELD_OUT, Asked, Learner


class GrowingClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns images in arrays; `partial_fit` adds classes, and needs no list of them in advance.

    `X` is N x size x size (grey) or N x size x size x 3, of any number type; rows of numbers (N x features) are laid
    out as grey squares. uint8 is taken as it is, other types are scaled by the range of the first call. With a
    `path` the model is kept in that file and can be used by every `upcl` command.
    """

    learner_: Learner
    classes_: np.ndarray
    range_: tuple[float, float]

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
        for name in ("learner_", "range_"):
            self.__dict__.pop(name, None)
        return self._learn(X, y, anew=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> GrowingClassifier:  # noqa: ARG002, N803
        """Learn new classes, and more images of old ones, on top of what is known: also by the file at `path`."""
        return self._learn(X, y, anew=False)

    def _learn(self, X: Any, y: Any, *, anew: bool) -> GrowingClassifier:  # noqa: N803
        first = not hasattr(self, "learner_")
        X, y = validate_data(self, X, y, reset=first, allow_nd=True, dtype=None)  # noqa: N806
        check_classification_targets(y)
        if first:
            self._begin(X, anew=anew)
        labels = self._read_labels(y)
        held = _held_out(y)
        images, names = self._images(X), [str(label) for label in y.tolist()]
        train, kept = np.flatnonzero(~held), np.flatnonzero(held)
        wanted: dict[str, Any] = {"memory": self.memory, "epochs": self.epochs, "most_lost": None}
        if not self.learner_.classes:
            wanted |= {"method": self.method, "backbone": self.backbone or "small"}
        self.learner_.learn_arrays(
            images[torch.from_numpy(train)],
            [names[k] for k in train],
            images[torch.from_numpy(kept)],
            [names[k] for k in kept],
            Asked(**wanted),
        )
        self.classes_ = np.array([labels[name] for name in self.learner_.classes])
        return self

    def _begin(self, X: np.ndarray, *, anew: bool) -> None:  # noqa: N803
        self.range_ = (0.0, 255.0) if X.dtype == np.uint8 else (float(np.min(X)), float(np.max(X)))
        path = Path(self.path) if self.path else Path(tempfile.mkdtemp(prefix="upcl-")) / "model.upcl"
        if not self.path:
            weakref.finalize(self, shutil.rmtree, path.parent, ignore_errors=True)
        self.learner_ = Learner(path, device=self.device)
        if anew:
            self.learner_.bundle = None  # the file stays whole until the new model is

    def _read_labels(self, y: np.ndarray) -> dict[str, Any]:
        """The labels of all classes by their names: those of `y`, and what a file knows in their kind."""
        kind = {"True": True, "False": False}.__getitem__ if y.dtype == bool else y.dtype.type
        try:
            known = {name: kind(name) for name in self.learner_.classes}
        except (ValueError, KeyError):
            names = ", ".join(self.learner_.classes[:5])
            raise ValueError(
                f"{self.learner_.path} knows classes ({names}) that are no labels of the kind of y"
            ) from None
        return {**known, **dict(zip(map(str, y.tolist()), y, strict=True))}

    def _images(self, X: np.ndarray) -> Tensor:  # noqa: N803
        """uint8, N x channels x size x size."""
        if X.ndim == 2:
            side = math.ceil(math.sqrt(X.shape[1]))
            X = np.pad(X, ((0, 0), (0, side * side - X.shape[1])), constant_values=self.range_[0])  # noqa: N806
            X = X.reshape(len(X), side, side)  # noqa: N806
        if X.shape[1] != X.shape[2] or X.ndim > 4:
            raise ValueError(f"X must hold square images, N x size x size or N x size x size x 3; got {X.shape}")
        low, high = self.range_
        scaled = X if X.dtype == np.uint8 else np.clip((X - low) / max(high - low, 1e-12), 0, 1) * 255
        pixels = torch.from_numpy(np.ascontiguousarray(np.rint(scaled).astype(np.uint8)))
        return pixels[:, None] if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2).contiguous()

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Calibrated confidence, a column for each of `classes_`."""
        check_is_fitted(self, "classes_")
        X = validate_data(self, X, reset=False, allow_nd=True, dtype=None)  # noqa: N806
        reader = self.learner_.reader
        kept = [place for place, name in enumerate(reader.state.classes) if name is not None]
        return reader.confidence(reader.look(self._images(X)))[:, kept].numpy()

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The likeliest label of each image."""
        sure = self.predict_proba(X)
        labels: np.ndarray = self.classes_[sure.argmax(1)]
        return labels


def _held_out(y: np.ndarray) -> np.ndarray:
    """Every so many of each class, where it has enough."""
    held = np.zeros(len(y), dtype=bool)
    every = 100 // HELD_OUT
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        held[members[every - 1 :: every]] = True
    return held
