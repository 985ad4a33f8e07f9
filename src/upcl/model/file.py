"""The `.upcl` file: a zip archive of JSON, safetensors and PNG images, documented in docs/model-file.md. No pickle."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pydantic
import safetensors.torch
import torch
from torch import Tensor

from upcl.core.errors import TrainingError, UpclError
from upcl.core.files import atomic_path, check_archive
from upcl.core.types import Samples
from upcl.data.io.images import encode_png

from .bundle import Bundle, ModelState
from .consistency import check_network
from .manifest import (
    FEATURES,
    FORMAT,
    HISTORY,
    IMAGE,
    MANIFEST,
    MAX_BYTES,
    PICTURE,
    PICTURES,
    SHARED,
    SPEC,
    STATES,
    VERSION,
    WEIGHTS,
    check_sample_bytes,
    check_spec,
    check_tensors,
    parse_manifest,
    upgrade_from_1,
)
from .pictures import check_picture
from .reader import EntryReader, pixel_digest

MAX_SHOWN = 100  # errors in a manifest


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

    Raises:
        TrainingError: if `load` would refuse the file, because a weight is not finite for example.

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
    try:
        with atomic_path(path) as partial:
            with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
                _Writer(archive).write(bundle)
            with zipfile.ZipFile(partial) as archive:
                check_archive(partial, archive)
            samples = [part for state in bundle.states.values() for part in (state.exemplars, state.held_out)]
            check_sample_bytes(sum(part.inputs.nbytes for part in samples), partial.stat().st_size)
    except ValueError as error:
        raise TrainingError(f"{path} was not changed, since the new model could not be read again: {error}") from None


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
        self.archive.writestr(MANIFEST, json.dumps(manifest, allow_nan=False))

    def add_tensors(self, name: str, tensors: Mapping[str, Tensor]) -> str:
        """Store tensors, and return the digest of their entry; what could not be read again is not written."""
        check_tensors(tensors)
        content = safetensors.torch.save({key: value.contiguous() for key, value in tensors.items()})
        self.archive.writestr(name, content, zipfile.ZIP_STORED)  # compression gains little
        return hashlib.sha256(content).hexdigest()

    def add_state(self, number: int, state: ModelState, shared: Mapping[str, Tensor]) -> dict[str, Any]:
        """Store the weights and images of a state, and return its entry in the manifest."""
        own = {name: value for name, value in state.weights.items() if name not in shared}
        return {
            "weights_sha256": self.add_tensors(WEIGHTS.format(number), own),
            "growth": state.growth,
            "classes": state.classes,
            "exemplars": self.add_samples(state.exemplars),
            "held_out": self.add_samples(state.held_out),
            "reading": state.reading,
            "calibration": asdict(state.calibration),
            "trained": state.trained,
            "tested": state.tested,
            "assigned": sorted(state.assigned),
            "strength": state.strength,
            "method": state.method,
        }

    def add_pictures(self, bundle: Bundle) -> dict[str, str]:
        """Store pictures of photos that the model still knows, and return the digests of their entries."""
        known = {digest for state in bundle.states.values() for digests in state.trained.values() for digest in digests}
        pictures = {digest: content for digest, content in bundle.pictures.items() if digest in known}
        for digest, content in pictures.items():
            self.archive.writestr(PICTURE.format(digest), content, zipfile.ZIP_STORED)
        return {digest: hashlib.sha256(content).hexdigest() for digest, content in pictures.items()}

    def add_samples(self, samples: Samples) -> dict[str, Any]:
        """Store images or features, and return what the manifest says about them."""
        labels = samples.labels.tolist()
        if samples.inputs.is_floating_point():
            return {"images": [], "labels": labels, "rows": self.add_features(samples.inputs)}
        return {"images": [self.add_image(image) for image in samples.inputs], "labels": labels}

    def add_features(self, features: Tensor) -> list[int]:
        """Rows of the table of all features."""
        found = []
        for row in features:
            key = hashlib.sha256(row.contiguous().numpy().data).digest()
            if key not in self.rows:
                self.rows[key] = len(self.features)
                self.features.append(row)
            found.append(self.rows[key])
        return found

    def add_image(self, image: Tensor) -> str:
        digest = pixel_digest(image)
        if digest not in self.stored:
            self.stored.add(digest)
            self.archive.writestr(IMAGE.format(digest), encode_png(image.numpy()), zipfile.ZIP_STORED)
        return digest


def _shared_weights(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Tensors that are the same in several states, such as a frozen backbone."""
    first, *others = states
    if not others:
        return {}
    return {
        name: value
        for name, value in first.items()
        if all(name in other and _equal(other[name], value) for other in others)
    }


def _equal(one: Tensor, other: Tensor) -> bool:
    return one is other or torch.equal(one, other)


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
    except pydantic.ValidationError as error:
        raise ModelFileError(f"{path} is damaged: its manifest does not fit: {_first_error(error)}") from None
    except ValueError as error:
        raise ModelFileError(f"{path} is damaged: {error}") from None
    except Exception as error:  # a file of unknown origin can break its readers in many ways
        raise ModelFileError(f"{path} is damaged: {type(error).__name__} {error}") from None


def _first_error(error: pydantic.ValidationError) -> str:
    if error.error_count() > MAX_SHOWN:  # a list of all would be long
        return f"it has {error.error_count():,} errors"
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{first['msg']} ({'.'.join(map(str, first['loc']))})"


def _read_bundle(path: Path, archive: zipfile.ZipFile) -> Bundle:
    manifest = _read_manifest(path, archive)
    spec = SPEC.validate_python(manifest["spec"])
    check_spec(spec)
    history = HISTORY.validate_python(manifest["history"])
    stored = STATES.validate_python(manifest["states"])
    if max(stored) >= len(history):
        raise ValueError("its states and its history do not match")
    reader = EntryReader(archive, spec, manifest["shared_sha256"], manifest["features_sha256"])
    num_samples = sum(len(entry.exemplars) + len(entry.held_out) for entry in stored.values())
    check_sample_bytes(num_samples * reader.sample_bytes, path.stat().st_size)
    states = {number: reader.read_state(number, entry) for number, entry in stored.items()}
    versions = {key: str(value) for key, value in manifest["written_by"].items()}
    pictures = {
        digest: check_picture(reader.read_entry(PICTURE.format(digest), sha256))
        for digest, sha256 in PICTURES.validate_python(manifest["pictures"]).items()
    }
    bundle = Bundle(spec, history, states, versions, pictures)
    check_network(bundle)
    return bundle


def _read_manifest(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    """The manifest in the current version; nothing is unpacked before the declared size is checked."""
    if MANIFEST not in archive.namelist():
        raise ModelFileError(f"{path} is not a upcl model: it has no {MANIFEST}")
    if sum(entry.file_size for entry in archive.infolist()) > MAX_BYTES:
        raise ModelFileError(f"{path} was not read: it declares more than {MAX_BYTES:,} bytes")
    check_archive(path, archive)
    manifest = parse_manifest(archive.read(MANIFEST))
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
