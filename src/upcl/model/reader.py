"""Entries of a model file as tensors: weights, features and images, checked while they are read."""

from __future__ import annotations

import hashlib
import io
import zipfile

import numpy as np
import safetensors.torch
import torch
from PIL import Image
from torch import Tensor

from upcl.core.types import Samples
from upcl.nets import num_features

from .bundle import ModelSpec, ModelState
from .consistency import check_photos
from .manifest import FEATURES, IMAGE, SHARED, WEIGHTS, StoredSamples, StoredState, check_state, check_tensors


class EntryReader:
    """Reads the states of a model from an archive, each entry once.

    Args:
        archive: the archive; `check_archive` has bounded what it unpacks to.
        spec: what the model is made with.
        shared_sha256: digest of the weights that all states share; empty for none.
        features_sha256: digest of the table of features; empty for none.

    Raises:
        ValueError: if the entries do not fit the spec or their digests.

    Example:
        >>> spec = ModelSpec("upcl", {}, "small", channels=3, size=32, mean=(0.5,), std=(0.2,), memory="20/class")
        >>> with zipfile.ZipFile(io.BytesIO(), "w") as archive:
        ...     EntryReader(archive, spec, "", "").sample_bytes
        3072
    """

    def __init__(self, archive: zipfile.ZipFile, spec: ModelSpec, shared_sha256: str, features_sha256: str) -> None:
        self.archive, self.spec = archive, spec
        self.shared = self.read_tensors(SHARED, shared_sha256)
        self.features = self._read_features(features_sha256)
        self._images: dict[str, Tensor] = {}  # views of what was read before

    def _read_features(self, sha256: str) -> Tensor:
        features = self.read_tensors(FEATURES, sha256).get("features")
        if features is None:  # of a model that keeps none, and has no photo held out
            return torch.empty(0, num_features(self.spec.backbone) if self.spec.features else 0)
        if features.ndim != 2 or not features.is_floating_point() or features.shape[1] == 0:
            raise ValueError("its table of features is not one")
        return features

    @property
    def sample_bytes(self) -> int:
        """Bytes that an image or the features of a photo take in memory."""
        if self.spec.features:
            return self.features.shape[1] * self.features.itemsize
        return self.spec.channels * self.spec.size**2

    def read_entry(self, name: str, sha256: str) -> bytes:
        """Read an entry.

        Args:
            name: its name.
            sha256: its digest.
        """
        content = self.archive.read(name)
        if hashlib.sha256(content).hexdigest() != sha256:
            raise ValueError(f"{name} does not match its digest")
        return content

    def read_tensors(self, name: str, sha256: str) -> dict[str, Tensor]:
        """Read an entry of tensors.

        Args:
            name: its name.
            sha256: its digest; empty if there is no such entry.
        """
        tensors = safetensors.torch.load(self.read_entry(name, sha256)) if sha256 else {}
        check_tensors(tensors)
        return tensors

    def read_state(self, number: int, entry: StoredState) -> ModelState:
        """Read a state.

        Args:
            number: number of the step.
            entry: what the manifest says about it.
        """
        check_state(entry)
        num_classes = len(entry.classes)
        state = ModelState(
            weights={**self.shared, **self.read_tensors(WEIGHTS.format(number), entry.weights_sha256)},
            growth=entry.growth,
            classes=entry.classes,
            exemplars=self._read_samples(entry.exemplars, num_classes),
            held_out=self._read_samples(entry.held_out, num_classes),
            reading=entry.reading,
            calibration=entry.calibration,
            trained=entry.trained,
            tested=entry.tested,
            assigned=_assigned(entry),
            strength=entry.strength,
            method=entry.method,
        )
        check_photos(self.spec, state)
        return state

    def _read_samples(self, stored: StoredSamples, num_classes: int) -> Samples:
        labels = _checked_labels(stored, num_classes)
        if not self.spec.features:
            return Samples(self._read_images(stored.images), labels)
        if stored.rows and max(stored.rows) >= len(self.features):
            raise ValueError("it names features that it does not have")
        return Samples(self.features[torch.tensor(stored.rows, dtype=torch.int64)], labels)

    def _read_images(self, digests: list[str]) -> Tensor:
        size = self.spec.size
        images = torch.empty(len(digests), self.spec.channels, size, size, dtype=torch.uint8)
        for image, digest in zip(images, digests, strict=True):
            known = self._images.get(digest)
            image.copy_(self._read_image(digest) if known is None else known)
            self._images[digest] = image
        return images

    def _read_image(self, digest: str) -> Tensor:
        spec = self.spec
        with Image.open(io.BytesIO(self.archive.read(IMAGE.format(digest))), formats=["PNG"]) as image:
            if image.size != (spec.size, spec.size) or image.mode != ("L" if spec.channels == 1 else "RGB"):
                raise ValueError(f"image {digest} has an unexpected shape")
            pixels = np.array(image)
        tensor = torch.from_numpy(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1))
        if pixel_digest(tensor) != digest:
            raise ValueError(f"image {digest} does not match its digest")
        return tensor


def _assigned(entry: StoredState) -> frozenset[str]:
    known = frozenset(digest for part in (entry.trained, entry.tested) for found in part.values() for digest in found)
    return known if entry.assigned is None else known.intersection(entry.assigned)


def _checked_labels(stored: StoredSamples, num_classes: int) -> Tensor:
    if len(stored.labels) != len(stored):
        raise ValueError("the numbers of images and labels differ")
    if stored.labels and not 0 <= min(stored.labels) <= max(stored.labels) < num_classes:
        raise ValueError("an image is labelled with a class that does not exist")
    return torch.tensor(stored.labels, dtype=torch.int64)


def pixel_digest(image: Tensor) -> str:
    """The digest that an image is stored under.

    Args:
        image: uint8 pixels.

    Example:
        >>> pixel_digest(torch.zeros(1, 8, 8, dtype=torch.uint8))[:8]
        'f5a5fd42'
    """
    return hashlib.sha256(image.numpy().tobytes()).hexdigest()
