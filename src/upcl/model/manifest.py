"""The manifest of a model file: how states are stored, what is checked before they are read, and older versions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, TypeAdapter
from torch import Tensor

from .bundle import HistoryEntry, ModelSpec
from .calibration import Calibration

FORMAT, VERSION = "upcl-model", 4
MAX_BYTES = 4 * 2**30  # of a file, and of its images once decoded
MAX_SIZE = 1024  # pixels per side


@dataclass(frozen=True)
class StoredSamples:
    """Samples as the manifest stores them: images by digest, or features by their row in the table of features.

    Attributes:
        images: digests of images.
        labels: their classes.
        rows: rows of features, instead of images.

    Example:
        >>> StoredSamples(images=[], labels=[0, 1], rows=[5, 7]).rows
        [5, 7]
    """

    images: list[str]
    labels: list[int]
    rows: list[NonNegativeInt] = field(default_factory=list)


@dataclass(frozen=True)
class StoredState:
    """A state as the manifest stores it; the attributes are those of `ModelState`.

    Example:
        >>> nothing = StoredSamples([], [])
        >>> StoredState("", (1,), ("cat",), nothing, nothing, "head", Calibration(1.0, -1.0, 0.0, 0)).classes
        ('cat',)
    """

    weights_sha256: str
    growth: tuple[PositiveInt, ...]
    classes: tuple[str | None, ...]
    exemplars: StoredSamples
    held_out: StoredSamples
    reading: Literal["head", "nme"]
    calibration: Calibration
    trained: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tested: dict[str, tuple[str, ...]] = field(default_factory=dict)


SPEC = TypeAdapter(ModelSpec)
HISTORY = TypeAdapter(tuple[HistoryEntry, ...])
STATES = TypeAdapter(dict[NonNegativeInt, StoredState])
PICTURES = TypeAdapter(dict[Annotated[str, Field(pattern=r"^[0-9a-f]{1,64}$")], str])


def upgrade_from_1(manifest: dict[str, Any]) -> None:
    """Rename the keys that were called differently in version 1.

    Args:
        manifest: the manifest, which is changed to version 2.

    Example:
        >>> manifest = {"version": 1, "making": {"method": "upcl"}, "history": [], "states": {}}
        >>> upgrade_from_1(manifest)
        >>> manifest["version"], manifest["spec"]
        (2, {'method': 'upcl'})
    """
    manifest["spec"] = manifest.pop("making")
    for entry in manifest["history"]:
        entry["extra"] = entry.pop("more", {})
    for state in manifest["states"].values():
        calibration = state["calibration"]
        calibration["false_alarm_rate"] = calibration.pop("false_alarms")
        calibration["num_images"] = calibration.pop("images")
    manifest["version"] = 2


def check_spec(spec: ModelSpec) -> None:
    """Check what a model is made with.

    Args:
        spec: the spec.

    Raises:
        ValueError: if no model can be made with it.

    Example:
        >>> check_spec(ModelSpec("a.py:B", {}, "small", 1, 8, mean=(0.5,), std=(0.2,), memory="20/class"))
        Traceback (most recent call last):
        ValueError: its method is not part of this package
    """
    if spec.channels not in (1, 3) or not 0 < spec.size <= MAX_SIZE:
        raise ValueError(f"unsupported images of {spec.size} pixels and {spec.channels} channels")
    if not len(spec.mean) == len(spec.std) == spec.channels or not all(0 < value < 1e3 for value in spec.std):
        raise ValueError("its mean and standard deviation do not match its images")
    if not re.fullmatch(r"[a-z0-9+]+", spec.method):  # in particular not FILE.py:Class, which would run code
        raise ValueError("its method is not part of this package")


def check_image_bytes(stored: Mapping[int, StoredState], spec: ModelSpec) -> None:
    """Check that the images of a model fit in memory once they are decoded.

    Args:
        stored: its states.
        spec: what it is made with.

    Raises:
        ValueError: if they do not.

    Example:
        >>> check_image_bytes({}, ModelSpec("upcl", {}, "small", 1, 8, (0.5,), (0.2,), "20/class"))
    """
    num_images = sum(len(entry.exemplars.images) + len(entry.held_out.images) for entry in stored.values())
    if num_images * spec.channels * spec.size**2 > MAX_BYTES:
        raise ValueError(f"its decoded images would take more than {MAX_BYTES:,} bytes")


def check_state(entry: StoredState, weights: Mapping[str, Tensor]) -> None:
    """Check that a state and its weights belong together.

    Args:
        entry: the state.
        weights: its weights.

    Raises:
        ValueError: if they do not.

    Example:
        >>> import torch
        >>> nothing = StoredSamples([], [])
        >>> state = StoredState("", (1,), ("cat",), nothing, nothing, "head", Calibration(1.0, -1.0, 0.0, 0))
        >>> check_state(state, {"head.weight": torch.zeros(1, 128)})
    """
    num_classes = len(entry.classes)
    num_rows = sum(len(value) for name, value in weights.items() if name.startswith("head.") and value.ndim)
    if sum(entry.growth) != num_classes or num_classes > num_rows:
        raise ValueError("the number of classes does not match the network")
    if not any(entry.classes):
        raise ValueError("it has no classes")
    numbers = [value for value in astuple(entry.calibration) if value is not None]
    if entry.calibration.temperature <= 0 or not all(map(math.isfinite, numbers)):
        raise ValueError("its calibration is invalid")
