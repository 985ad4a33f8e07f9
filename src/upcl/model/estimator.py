"""A growing model for users of scikit-learn: arrays in, labels out."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from upcl.core.splits import hold_out
from upcl.data.defaults import DEFAULT_MEMORY

from .arrays import array_range, images_from_array
from .bundle import Arrays
from .hold_out import HELD_OUT_FRACTION
from .intake import NewImages, NothingNewError, image_digest
from .learner import Learner
from .options import DEFAULT_EPOCHS, LearnOptions
from .sources import fit_images

DEFAULT_BACKBONE = "small"  # arrays are small images as a rule
PARSE_LABEL: dict[str, Callable[[str], Any]] = {  # from the name of a class to its label, by the kind of NumPy's type
    "b": {"True": True, "False": False}.__getitem__,
    "i": int,
    "u": int,
    "f": float,
    "U": str,
}


class GrowingClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of images in arrays that learns new classes with `partial_fit`, without a list of them in advance.

    `X` is N x size x size (grey) or N x size x size x 3, of any number type; rows of numbers (N x features) are laid
    out as grey squares. uint8 values are taken as they are. Other types are scaled by the range of the first call,
    which the model stores. A fifth of each class's images is held out for calibration.

    Args:
        path: file to store the model in, which every `upcl` command can then use; by default a temporary one.
        method: name of a method that `upcl methods` lists; by default `upcl`, or, with a pretrained backbone, the
            method in closed form that does best in cross-validation.
        epochs: passes over the images in each call.
        memory: budget for stored exemplars: `20/class`, `2000` or `50MB`.
        backbone: name of a network; by default `small`, which is trained. A pretrained one that `upcl backbones` lists
            stays frozen, and images are resized to what it expects.
        device: `auto`, `cpu`, `cuda`, `cuda:1` or `mps`.

    Attributes:
        classes_: labels of the known classes, sorted.
        learner_: the model, with its history and its calibrated `predictor`.

    Example:
        >>> images = np.random.default_rng(0).random((12, 8, 8))
        >>> classifier = GrowingClassifier(epochs=1).fit(images[:8], [0, 1] * 4)
        >>> classifier.partial_fit(images[8:], [7] * 4).classes_.tolist()
        [0, 1, 7]
        >>> classifier.predict_proba(images).shape
        (12, 3)
    """

    learner_: Learner
    classes_: np.ndarray

    def __init__(
        self,
        path: str | None = None,
        *,
        method: str | None = None,
        epochs: int = DEFAULT_EPOCHS,
        memory: str = DEFAULT_MEMORY,
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
        """Learn from scratch; a model at `path` is replaced.

        Args:
            X: images.
            y: their labels: integers, floats, booleans or strings.
        """
        self.__dict__.pop("learner_", None)
        return self._learn(X, y, from_scratch=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> GrowingClassifier:  # noqa: ARG002, N803
        """Learn new classes, and more images of known ones, on top of what the model or the file at `path` knows.

        Args:
            X: images.
            y: their labels, of the same type as before.
            classes: ignored; present for compatibility with scikit-learn.
        """
        return self._learn(X, y, from_scratch=False)

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return calibrated probabilities, one column for each of `classes_`.

        Args:
            X: images.
        """
        self._check_fitted()
        X = validate_data(self, X, reset=not hasattr(self, "n_features_in_"), allow_nd=True)  # noqa: N806
        images, spec = images_from_array(X, self._arrays()), self.learner_.require_bundle().spec
        predictions = self.learner_.predictor.predict(fit_images(images, spec) if spec.features else images)
        return predictions.confidence[:, self._columns].numpy()

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the most likely label of each image.

        Args:
            X: images.
        """
        probabilities = self.predict_proba(X)
        labels: np.ndarray = self.classes_[probabilities.argmax(1)]
        return labels

    def _learn(self, X: Any, y: Any, *, from_scratch: bool) -> GrowingClassifier:  # noqa: N803
        first = not hasattr(self, "learner_")
        X, y = validate_data(self, X, y, reset=first, allow_nd=True)  # noqa: N806
        check_classification_targets(y)
        if first:
            self._open(from_scratch=from_scratch)
        if y.dtype.kind not in PARSE_LABEL:
            y = y.astype(str)
        arrays = self._arrays() if self.learner_.bundle else Arrays(*array_range(X), labels=y.dtype.kind)
        if self.learner_.classes and arrays.labels != y.dtype.kind:
            known = ", ".join(self.learner_.classes[:5])
            raise ValueError(f"the labels in y have another type than the classes of {self.learner_.path} ({known})")
        with contextlib.suppress(NothingNewError):
            self.learner_.learn_images(_split(X, y, arrays), self._options(arrays))
        self._set_classes()
        return self

    def _options(self, arrays: Arrays) -> LearnOptions:
        """Method and backbone are chosen by the first call only."""
        given = {"memory": (self.memory, DEFAULT_MEMORY), "epochs": (self.epochs, DEFAULT_EPOCHS)}
        options: dict[str, Any] = {name: value for name, (value, default) in given.items() if value != default}
        options["arrays"] = arrays
        if not self.learner_.classes:
            options |= {"method": self.method, "backbone": self.backbone or DEFAULT_BACKBONE}
        return LearnOptions(max_forgetting=None, **options)

    def _open(self, *, from_scratch: bool) -> None:
        path = Path(self.path) if self.path else Path(tempfile.mkdtemp(prefix="upcl-")) / "model.upcl"
        if not self.path:
            weakref.finalize(self, shutil.rmtree, path.parent, ignore_errors=True)
        self.learner_ = Learner(path, device=self.device)
        if from_scratch:
            self.learner_.bundle = None  # the file stays intact until the new model replaces it

    def _arrays(self) -> Arrays:
        """How the model interprets arrays; one that learned photos has names as labels, and values from 0 to 255."""
        return self.learner_.require_bundle().spec.arrays or Arrays(0, 255, "U")

    def _set_classes(self) -> None:
        """Set `classes_` in scikit-learn's order, and the columns of the model's scores that they correspond to."""
        parse = PARSE_LABEL[self._arrays().labels]
        names = self.learner_.require_bundle().state.classes
        columns = {parse(name): column for column, name in enumerate(names) if name is not None}
        self.classes_ = np.unique(list(columns))
        self._columns = [columns[label] for label in self.classes_.tolist()]

    def _check_fitted(self) -> None:
        """A model that an earlier process stored at `path` needs no fit."""
        if not hasattr(self, "classes_") and self.path and Path(self.path).exists():
            self._open(from_scratch=False)
            self._set_classes()
        check_is_fitted(self, "classes_")


def _split(X: np.ndarray, y: np.ndarray, arrays: Arrays) -> NewImages:  # noqa: N803
    """Hold out a part of each class; copies of one image stay together."""
    images, names = images_from_array(X, arrays), np.array([str(label) for label in y.tolist()])
    mask = hold_out(names, HELD_OUT_FRACTION, seed=0, groups=[image_digest(image) for image in images])
    return NewImages(images[~mask], names[~mask].tolist(), images[mask], names[mask].tolist(), undecided=True)
