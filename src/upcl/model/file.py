"""The `.upcl` file: a zip of JSON, safetensors and PNG images, documented in docs/model-file.md. No pickle."""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import zipfile
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import safetensors.torch
import torch
from PIL import Image
from pydantic import NonNegativeInt, PositiveInt, TypeAdapter

from upcl.core.errors import UpclError
from upcl.core.files import atomic_path
from upcl.core.types import Samples
from upcl.data.io.images import encode_png

from .bundle import Bundle, HistoryEntry, ModelSpec, ModelState
from .calibration import Calibration

FORMAT, VERSION = "upcl-model", 2
MOST_BYTES = 4 * 2**30  # of a file, and of its images when they are decoded
MOST_PIXELS = 1024  # on a side


class ModelFileError(UpclError):
    """A file that is not a whole model of a version that can be read."""


@dataclass(frozen=True)
class _StoredImages:
    """Samples as the manifest has them: images by their digest."""

    images: list[str]
    labels: list[int]


@dataclass(frozen=True)
class _StoredState:
    """A state as the manifest has it."""

    weights_sha256: str
    growth: tuple[PositiveInt, ...]
    classes: tuple[str | None, ...]
    exemplars: _StoredImages
    held_out: _StoredImages
    reading: Literal["head", "nme"]
    calibration: Calibration
    trained: dict[str, tuple[str, ...]] = field(default_factory=dict)


_SPEC = TypeAdapter(ModelSpec)
_HISTORY = TypeAdapter(tuple[HistoryEntry, ...])
_STATES = TypeAdapter(dict[NonNegativeInt, _StoredState])


def save(bundle: Bundle, path: Path) -> None:
    """Write beside the target and rename over it: the old file stays whole until the new one is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as file:
        _fill(file, bundle)


def _fill(file: zipfile.ZipFile, bundle: Bundle) -> None:
    from importlib.metadata import version

    stored: set[str] = set()

    def keep(samples: Samples) -> dict[str, Any]:
        """Images under their digest, each once however many states have it."""
        names = []
        for image in samples.inputs:
            name = hashlib.sha256(image.numpy().tobytes()).hexdigest()
            names.append(name)
            if name not in stored:
                stored.add(name)
                file.writestr(f"images/{name}.png", encode_png(image.numpy()), zipfile.ZIP_STORED)
        return {"images": names, "labels": samples.labels.tolist()}

    states = {}
    for number, state in bundle.states.items():
        weights = safetensors.torch.save({name: value.contiguous() for name, value in state.weights.items()})
        file.writestr(f"weights/{number}.safetensors", weights, zipfile.ZIP_STORED)  # they hardly shrink
        states[str(number)] = {
            "weights_sha256": hashlib.sha256(weights).hexdigest(),
            "growth": state.growth,
            "classes": state.classes,
            "exemplars": keep(state.exemplars),
            "held_out": keep(state.held_out),
            "reading": state.reading,
            "calibration": asdict(state.calibration),
            "trained": state.trained,
        }
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": {"upcl": version("upcl"), "torch": torch.__version__},
        "spec": asdict(bundle.spec),
        "history": [asdict(step) for step in bundle.history],
        "states": states,
    }
    file.writestr("manifest.json", json.dumps(manifest, indent=1, allow_nan=False))


def load(path: Path) -> Bundle:
    """Read a model; whatever is not exactly one is refused with the reason."""
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder: name a file, such as {path / 'model.upcl'}")
    if not path.is_file():
        raise ModelFileError(f"there is no model {path}: `upcl learn FOLDER --model {path}` makes one")
    try:
        with zipfile.ZipFile(path) as file:
            return _read(path, file)
    except zipfile.BadZipFile as error:
        raise ModelFileError(f"{path} is not a model of upcl, or is damaged: {error}") from None
    except ModelFileError:
        raise
    except Exception as error:  # a file from anywhere can break its readers in many ways
        raise ModelFileError(f"{path} is damaged: {type(error).__name__} {error}") from None


def _read(path: Path, file: zipfile.ZipFile) -> Bundle:
    names = set(file.namelist())
    if "manifest.json" not in names:
        raise ModelFileError(f"{path} is not a model of upcl: it has no manifest.json")
    if sum(entry.file_size for entry in file.infolist()) > MOST_BYTES:
        raise ModelFileError(f"{path} claims to hold more than {MOST_BYTES:,} bytes: it was not read")
    manifest = json.loads(file.read("manifest.json"))
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFileError(f"{path} is not a model of upcl: its manifest says another format")
    if manifest["version"] == 1:
        _upgrade(manifest)
    if manifest["version"] != VERSION:
        raise ModelFileError(
            f"{path} has version {manifest['version']}; this upcl reads version {VERSION}: upgrade upcl"
        )
    spec = _SPEC.validate_python(manifest["spec"])
    if spec.channels not in (1, 3) or not 0 < spec.size <= MOST_PIXELS:
        raise ValueError(f"images of {spec.size} pixels and {spec.channels} channels")
    if not len(spec.mean) == len(spec.std) == spec.channels or not all(0 < value < 1e3 for value in spec.std):
        raise ValueError("its mean and deviation do not fit its images")
    if not re.fullmatch(r"[a-z0-9+]+", spec.method):
        raise ValueError("its method is none of this package's")  # nor code to be run
    history = _HISTORY.validate_python(manifest["history"])
    stored = _STATES.validate_python(manifest["states"])
    images = sum(len(about.exemplars.images) + len(about.held_out.images) for about in stored.values())
    if images * spec.channels * spec.size**2 > MOST_BYTES:
        raise ValueError(f"its images would take more than {MOST_BYTES:,} bytes")
    states = {number: _state(file, number, about, spec) for number, about in stored.items()}
    if not states or max(states) >= len(history):
        raise ModelFileError(f"{path} is damaged: its states and its history do not fit")
    return Bundle(spec, history, states, {key: str(value) for key, value in manifest["written_by"].items()})


def _upgrade(manifest: dict[str, Any]) -> None:
    """Version 1 had other names for some keys."""
    manifest["spec"] = manifest.pop("making")
    for step in manifest["history"]:
        step["extra"] = step.pop("more", {})
    for state in manifest["states"].values():
        calibration = state["calibration"]
        calibration["false_alarm_rate"] = calibration.pop("false_alarms")
        calibration["num_images"] = calibration.pop("images")
    manifest["version"] = VERSION


def _state(file: zipfile.ZipFile, number: int, about: _StoredState, spec: ModelSpec) -> ModelState:
    content = file.read(f"weights/{number}.safetensors")
    if hashlib.sha256(content).hexdigest() != about.weights_sha256:
        raise ValueError("the weights do not match their digest")
    weights, num_classes = safetensors.torch.load(content), len(about.classes)
    rows = sum(len(value) for name, value in weights.items() if name.startswith("head.") and value.ndim)
    if sum(about.growth) != num_classes or num_classes > rows:
        raise ValueError("the number of classes does not fit the network")
    if not any(about.classes):
        raise ValueError("it knows no class")
    if about.calibration.temperature <= 0 or not all(map(math.isfinite, astuple(about.calibration))):
        raise ValueError("its calibration is none")
    return ModelState(
        weights=weights,
        growth=about.growth,
        classes=about.classes,
        exemplars=_images(file, about.exemplars, spec, num_classes),
        held_out=_images(file, about.held_out, spec, num_classes),
        reading=about.reading,
        calibration=about.calibration,
        trained=about.trained,
    )


def _images(file: zipfile.ZipFile, about: _StoredImages, spec: ModelSpec, num_classes: int) -> Samples:
    shape = (spec.channels, spec.size, spec.size)
    labels = torch.tensor(about.labels, dtype=torch.int64)
    if len(labels) != len(about.images):
        raise ValueError("there are not as many exemplars as labels")
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < num_classes:
        raise ValueError("an exemplar has no class")
    images = torch.empty(len(labels), *shape, dtype=torch.uint8)
    for place, name in enumerate(about.images):
        with Image.open(io.BytesIO(file.read(f"images/{name}.png")), formats=["PNG"]) as image:
            if image.size != shape[1:] or image.mode != ("L" if spec.channels == 1 else "RGB"):
                raise ValueError(f"image {name} has another shape")
            pixels = np.array(image)
        images[place] = torch.from_numpy(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1))
        if hashlib.sha256(images[place].numpy().tobytes()).hexdigest() != name:
            raise ValueError(f"image {name} does not match its digest")
    return Samples(images, labels)
