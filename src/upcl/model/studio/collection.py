"""All photos that a model knows or that wait for a label, with the answers of the model.

A photo has a label if the model learned it or holds it out; all other photos of the workspace wait for one. So there is
no second list of labels that could contradict the model.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from upcl.core.errors import UserError
from upcl.data.io.images import BrokenImageError
from upcl.data.io.listing import ImageFile
from upcl.model.bundle import Bundle
from upcl.model.extractor import feature_extractor
from upcl.model.feature_spec import feature_spec
from upcl.model.learner import Learner
from upcl.model.options import LearnOptions
from upcl.model.photo_changes import require_closed_form
from upcl.model.photo_features import extract_photos
from upcl.model.pictures import Pictures
from upcl.model.predictor import Predictions
from upcl.model.store import file_version
from upcl.training.pretrained import default_pretrained

from .workspace import StoredPhoto, Workspace


@dataclass(frozen=True)
class Answer:
    """A photo, its label if it has one, and what the model makes of it.

    Attributes:
        digest: identifies the photo.
        file: the name that it was given with.
        label: its class; None if it has no label.
        held_out: whether it is held out for evaluation.
        answer: the class that the model sees, or "none of these"; None before anything is learned.
        confidence: the probability of the most likely class.
        alternative: the class that is most likely if the answer is wrong; None if there is no other.

    Example:
        >>> Answer("0123456789abcdef", "7.jpg", None, False, "robin", 0.93).answer
        'robin'
    """

    digest: str
    file: str
    label: str | None
    held_out: bool
    answer: str | None
    confidence: float
    alternative: str | None = None


class Collection:
    """A model and its photos.

    Args:
        path: the `.upcl` file; it need not exist yet.
        device: where to compute.

    Raises:
        UserError: if the model is not in closed form, keeps no features, or no pretrained network is installed.

    Example:
        >>> Collection(Path("birds.upcl")).unlabelled()  # doctest: +SKIP
        []
    """

    def __init__(self, path: Path, device: str = "auto") -> None:
        self.learner = Learner(path, device=device)
        if self.learner.bundle:
            require_closed_form(self.learner.bundle)
        elif default_pretrained() is None:
            raise UserError("teaching on a page needs a pretrained network: pip install 'upcl[photos]'")
        self.workspace = Workspace(path.with_suffix(".photos"))
        self.spec = feature_spec(LearnOptions(), self.learner.bundle.spec if self.learner.bundle else None, path)
        state = self.learner.bundle.state if self.learner.bundle else None
        self._extractor = feature_extractor(self.spec, state, self.learner.device)
        self._features: dict[str, Tensor] = {}
        self._lock = threading.RLock()
        self._computing = threading.Lock()
        self._started, self._version = time.time_ns(), 0
        self.extract(list(self.workspace.photos.values()))

    @property
    def version(self) -> str:
        """Changes with every change of the model or the photos."""
        return f"{self._started}-{self._version}"

    @property
    def bundle(self) -> Bundle | None:
        """The model; None before anything is learned."""
        with self._lock:
            if self.learner.file_version != file_version(self.learner.path):
                self._reload()
            return self.learner.bundle

    def labels(self) -> dict[str, tuple[str, bool]]:
        """Class, and whether it is held out, by digest of each photo that has a label."""
        bundle = self.bundle
        if bundle is None:
            return {}
        return {
            digest: (name, held_out)
            for held_out, found in ((False, bundle.state.trained), (True, bundle.state.tested))
            for name, digests in found.items()
            for digest in digests
        }

    def names_of(self, digests: Iterable[str]) -> list[str | None]:
        """The classes that photos belong to, each once; None stands for photos without a label.

        Args:
            digests: the photos.
        """
        labels = self.labels()
        return list(dict.fromkeys(labels[digest][0] if digest in labels else None for digest in digests))

    def unlabelled(self) -> list[StoredPhoto]:
        """Photos without a label that were looked at, in the order in which they came."""
        known = self._features.keys() - self.labels().keys()
        return [photo for photo in list(self.workspace.photos.values()) if photo.digest in known]

    def features(self, digests: Sequence[str]) -> Tensor:
        """Features of photos, from the workspace or the model (N x d).

        Args:
            digests: the photos.

        Raises:
            UserError: if a photo is unknown.
        """
        stored = self._stored_features()
        try:
            rows = [self._features[digest] if digest in self._features else stored[digest] for digest in digests]
        except KeyError:
            raise UserError("there is no such photo: it was removed") from None
        return torch.stack(rows) if rows else torch.empty(0, 1)

    def _stored_features(self) -> dict[str, Tensor]:
        bundle = self.bundle
        if bundle is None:
            return {}
        state = bundle.state
        found: dict[str, Tensor] = {}
        for samples, digests in ((state.exemplars, state.trained), (state.held_out, state.tested)):
            ordered = [digest for name in state.classes if name is not None for digest in digests.get(name, ())]
            found |= dict(zip(ordered, samples.inputs, strict=True))
        return found

    def predict(self, digests: Sequence[str]) -> Predictions | None:
        """What the model sees in photos; None before anything is learned.

        Args:
            digests: the photos.
        """
        if self.bundle is None or not digests:
            return None
        return self.learner.predictor.predict(self.features(digests))

    def answers(self, name: str | None) -> list[Answer]:
        """The photos of a class, or those without a label, with the answers of the model.

        Args:
            name: the class; None for photos without a label.
        """
        with self._lock:
            labels = self.labels()
            chosen = (
                [photo.digest for photo in self.unlabelled()]
                if name is None
                else sorted(digest for digest, (found, _) in labels.items() if found == name)
            )
            predictions = self.predict(chosen)
            tops = predictions.top(2) if predictions else [None] * len(chosen)
        answers = []
        for digest, top in zip(chosen, tops, strict=True):
            photo, (label, held_out) = self.workspace.photos.get(digest), labels.get(digest, (None, False))
            found, sure = (top.name, round(top.confidence[0], 4)) if top else (None, 0.0)
            other = next((name for name in top.names if name != found), None) if top else None
            answers.append(Answer(digest, photo.file if photo else "", label, held_out, found, sure, other))
        return answers

    def picture(self, digest: str) -> bytes | None:
        """A small JPEG picture of a photo; None if neither the workspace nor the model has one.

        Args:
            digest: the photo.
        """
        if digest in self.workspace.photos:
            try:
                return self.workspace.picture(digest)
            except BrokenImageError:
                return None
        pictures: Pictures = self.learner.bundle.pictures if self.learner.bundle else {}
        return pictures.get(digest)

    def _reload(self) -> None:
        """Read the model again, which another process replaced."""
        with self.learner.exclusive():
            self._version += 1

    def extract(self, photos: Sequence[StoredPhoto]) -> None:
        """Look at photos of the workspace; those whose features are known are not looked at again.

        Args:
            photos: the photos. Those that can no longer be read are removed from the list, but not from the disk.
        """
        new = [photo for photo in photos if photo.digest not in self._features]
        files = [ImageFile(photo.path, "", "train") for photo in new]
        with self._computing:
            found = extract_photos(files, self.spec.size, *self._extractor)
        rows = dict(zip([file.path for file in found.readable], found.features, strict=True))
        with self._lock:
            self._version += bool(new)
            for photo in new:
                if photo.path in rows:
                    self._features[photo.digest] = rows[photo.path].clone()
                else:
                    self.workspace.photos.pop(photo.digest, None)
