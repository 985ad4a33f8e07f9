"""The `.upcl` file: a zip archive of JSON, safetensors and PNG images, documented in docs/model-file.md. No pickle."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from PIL import Image
from torch import Tensor

from upcl.core.errors import UpclError
from upcl.core.files import atomic_path
from upcl.core.types import Samples
from upcl.data.io.images import encode_png

from .bundle import Bundle, ModelSpec, ModelState
from .manifest import (
    FORMAT,
    HISTORY,
    MAX_BYTES,
    PICTURES,
    SPEC,
    STATES,
    VERSION,
    StoredSamples,
    StoredState,
    check_image_bytes,
    check_spec,
    check_state,
    upgrade_from_1,
)
from .pictures import check_picture

MANIFEST, SHARED, FEATURES = "manifest.json", "weights/shared.safetensors", "features.safetensors"


class ModelFileError(UpclError):
    """A file is not a complete, undamaged model of a version that can be read.

    Example:
        >>> load(Path("."))
        Traceback (most recent call last):
        upcl.model.file.ModelFileError: . is a folder: name a file, such as model.upcl
    """


def save(bundle: Bundle, path: Path) -> None:
    """Write a model atomically: the old file stays intact until the new one is complete.

    Args:
        bundle: the model.
        path: the file to create or replace.

    Example:
        >>> import numpy as np
        >>> from upcl import GrowingClassifier
        >>> images = np.random.default_rng(0).integers(0, 256, (8, 8, 8), dtype=np.uint8)
        >>> learner = GrowingClassifier(epochs=1).fit(images, ["cat", "dog"] * 4).learner_
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "pets.upcl"
        >>> save(learner.require_bundle(), path)
        >>> load(path).state.class_names
        ['cat', 'dog']
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        _Writer(archive).write(bundle)


class _Writer:
    """Fills an archive. Images, features, and weights that all states have in common are stored once."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self.stored: set[str] = set()
        self.rows: dict[bytes, int] = {}
        self.features: list[Tensor] = []

    def write(self, bundle: Bundle) -> None:
        shared = _shared_weights([state.weights for state in bundle.states.values()])
        states = {str(number): self.add_state(number, state, shared) for number, state in bundle.states.items()}
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "written_by": {"upcl": version("upcl"), "torch": torch.__version__},
            "spec": asdict(bundle.spec),
            "history": [asdict(entry) for entry in bundle.history],
            "shared_sha256": self.add_tensors(SHARED, shared),
            "features_sha256": self.add_tensors(
                FEATURES, {"features": torch.stack(self.features)} if self.features else {}
            ),
            "states": states,
            "pictures": self.add_pictures(bundle),
        }
        self.archive.writestr(MANIFEST, json.dumps(manifest, indent=1, allow_nan=False))

    def add_tensors(self, name: str, tensors: Mapping[str, Tensor]) -> str:
        """Store tensors, and return the digest of their entry."""
        content = safetensors.torch.save({key: value.contiguous() for key, value in tensors.items()})
        self.archive.writestr(name, content, zipfile.ZIP_STORED)  # compression gains little
        return hashlib.sha256(content).hexdigest()

    def add_state(self, number: int, state: ModelState, shared: Mapping[str, Tensor]) -> dict[str, Any]:
        """Store the weights and images of a state, and return its entry in the manifest."""
        own = {name: value for name, value in state.weights.items() if name not in shared}
        return {
            "weights_sha256": self.add_tensors(_weights_entry(number), own),
            "growth": state.growth,
            "classes": state.classes,
            "exemplars": self.add_samples(state.exemplars),
            "held_out": self.add_samples(state.held_out),
            "reading": state.reading,
            "calibration": asdict(state.calibration),
            "trained": state.trained,
            "tested": state.tested,
        }

    def add_pictures(self, bundle: Bundle) -> dict[str, str]:
        """Store pictures of photos that the model still knows, and return the digests of their entries."""
        known = {digest for state in bundle.states.values() for digests in state.trained.values() for digest in digests}
        pictures = {digest: content for digest, content in bundle.pictures.items() if digest in known}
        for digest, content in pictures.items():
            self.archive.writestr(_picture_entry(digest), content, zipfile.ZIP_STORED)
        return {digest: hashlib.sha256(content).hexdigest() for digest, content in pictures.items()}

    def add_samples(self, samples: Samples) -> dict[str, Any]:
        """Store images or features, and return what the manifest says about them."""
        labels = samples.labels.tolist()
        if samples.inputs.is_floating_point():
            return {"images": [], "labels": labels, "rows": [self.add_feature(row) for row in samples.inputs]}
        return {"images": [self.add_image(image) for image in samples.inputs], "labels": labels}

    def add_feature(self, feature: Tensor) -> int:
        content = feature.numpy().tobytes()
        if content not in self.rows:
            self.rows[content] = len(self.features)
            self.features.append(feature)
        return self.rows[content]

    def add_image(self, image: Tensor) -> str:
        digest = _pixel_digest(image)
        if digest not in self.stored:
            self.stored.add(digest)
            self.archive.writestr(_image_entry(digest), encode_png(image.numpy()), zipfile.ZIP_STORED)
        return digest


def _shared_weights(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Tensors that are the same in several states, such as a frozen backbone."""
    first, *others = states
    if not others:
        return {}
    return {
        name: value
        for name, value in first.items()
        if all(name in other and torch.equal(other[name], value) for other in others)
    }


def load(path: Path) -> Bundle:
    """Read a model without executing anything in it.

    Args:
        path: the `.upcl` file.

    Raises:
        ModelFileError: if the file is missing, damaged, too large, or not a model of a readable version.

    Example:
        >>> load(Path("missing.upcl"))
        Traceback (most recent call last):
        ...
        upcl.model.file.ModelFileError: there is no model missing.upcl: create it with ...
    """
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder: name a file, such as {path / 'model.upcl'}")
    if not path.is_file():
        raise ModelFileError(f"there is no model {path}: create it with `upcl learn FOLDER --model {path}`")
    try:
        with zipfile.ZipFile(path) as archive:
            return _read_bundle(path, archive)
    except zipfile.BadZipFile as error:
        raise ModelFileError(f"{path} is not a upcl model, or is damaged: {error}") from None
    except ModelFileError:
        raise
    except Exception as error:  # a file of unknown origin can break its readers in many ways
        raise ModelFileError(f"{path} is damaged: {type(error).__name__} {error}") from None


def _read_bundle(path: Path, archive: zipfile.ZipFile) -> Bundle:
    manifest = _read_manifest(path, archive)
    spec = SPEC.validate_python(manifest["spec"])
    check_spec(spec)
    history = HISTORY.validate_python(manifest["history"])
    stored = STATES.validate_python(manifest["states"])
    check_image_bytes(stored, spec)
    shared = _read_tensors(archive, SHARED, manifest["shared_sha256"])
    features = _read_tensors(archive, FEATURES, manifest["features_sha256"]).get("features")
    reader = _Reader(archive, spec, shared, torch.empty(0, 0) if features is None else features)
    states = {number: reader.read_state(number, entry) for number, entry in stored.items()}
    if not states or max(states) >= len(history):
        raise ModelFileError(f"{path} is damaged: its states and its history do not match")
    versions = {key: str(value) for key, value in manifest["written_by"].items()}
    stored_pictures = PICTURES.validate_python(manifest["pictures"])
    pictures = {
        digest: check_picture(_read_entry(archive, _picture_entry(digest), sha256))
        for digest, sha256 in stored_pictures.items()
    }
    return Bundle(spec, history, states, versions, pictures)


def _read_manifest(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    """The manifest in the current version; nothing is unpacked before the declared size is checked."""
    if MANIFEST not in archive.namelist():
        raise ModelFileError(f"{path} is not a upcl model: it has no {MANIFEST}")
    if sum(entry.file_size for entry in archive.infolist()) > MAX_BYTES:
        raise ModelFileError(f"{path} was not read: it declares more than {MAX_BYTES:,} bytes")
    manifest = json.loads(archive.read(MANIFEST))
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFileError(f"{path} is not a upcl model: its manifest declares another format")
    if manifest["version"] == 1:
        upgrade_from_1(manifest)
    if manifest["version"] == 2:
        manifest |= {"shared_sha256": "", "features_sha256": "", "version": 3}
    if manifest["version"] == 3:
        manifest |= {"pictures": {}, "version": VERSION}
    if manifest["version"] != VERSION:
        found = manifest["version"]
        raise ModelFileError(f"{path} has format version {found}; this upcl reads up to {VERSION}: upgrade upcl")
    return manifest


def _read_tensors(archive: zipfile.ZipFile, name: str, sha256: str) -> dict[str, Tensor]:
    """Tensors of an entry; none if the manifest has no digest for it."""
    return safetensors.torch.load(_read_entry(archive, name, sha256)) if sha256 else {}


def _read_entry(archive: zipfile.ZipFile, name: str, sha256: str) -> bytes:
    content = archive.read(name)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"{name} does not match its digest")
    return content


@dataclass(frozen=True, eq=False)
class _Reader:
    """Reads the states of an archive."""

    archive: zipfile.ZipFile
    spec: ModelSpec
    shared: dict[str, Tensor]
    features: Tensor

    def read_state(self, number: int, entry: StoredState) -> ModelState:
        weights = {**self.shared, **_read_tensors(self.archive, _weights_entry(number), entry.weights_sha256)}
        check_state(entry, weights)
        num_classes = len(entry.classes)
        return ModelState(
            weights=weights,
            growth=entry.growth,
            classes=entry.classes,
            exemplars=self.read_samples(entry.exemplars, num_classes),
            held_out=self.read_samples(entry.held_out, num_classes),
            reading=entry.reading,
            calibration=entry.calibration,
            trained=entry.trained,
            tested=entry.tested,
        )

    def read_samples(self, stored: StoredSamples, num_classes: int) -> Samples:
        if not self.spec.features:
            return _read_images(self.archive, stored, self.spec, num_classes)
        labels = _checked_labels(stored, len(stored.rows), num_classes)
        if not bool(torch.isfinite(self.features).all()):
            raise ValueError("a feature is not finite")
        return Samples(self.features[torch.tensor(stored.rows, dtype=torch.int64)], labels)


def _read_images(archive: zipfile.ZipFile, stored: StoredSamples, spec: ModelSpec, num_classes: int) -> Samples:
    labels = _checked_labels(stored, len(stored.images), num_classes)
    images = torch.empty(len(labels), spec.channels, spec.size, spec.size, dtype=torch.uint8)
    for index, digest in enumerate(stored.images):
        images[index] = _read_image(archive.read(_image_entry(digest)), digest, spec)
    return Samples(images, labels)


def _checked_labels(stored: StoredSamples, num: int, num_classes: int) -> Tensor:
    labels = torch.tensor(stored.labels, dtype=torch.int64)
    if len(labels) != num:
        raise ValueError("the numbers of images and labels differ")
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < num_classes:
        raise ValueError("an image is labelled with a class that does not exist")
    return labels


def _read_image(content: bytes, digest: str, spec: ModelSpec) -> Tensor:
    with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
        if image.size != (spec.size, spec.size) or image.mode != ("L" if spec.channels == 1 else "RGB"):
            raise ValueError(f"image {digest} has an unexpected shape")
        pixels = np.array(image)
    tensor = torch.from_numpy(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1))
    if _pixel_digest(tensor) != digest:
        raise ValueError(f"image {digest} does not match its digest")
    return tensor


def _pixel_digest(image: Tensor) -> str:
    return hashlib.sha256(image.numpy().tobytes()).hexdigest()


def _weights_entry(number: int) -> str:
    return f"weights/{number}.safetensors"


def _picture_entry(digest: str) -> str:
    return f"pictures/{digest}.jpg"


def _image_entry(digest: str) -> str:
    return f"images/{digest}.png"
