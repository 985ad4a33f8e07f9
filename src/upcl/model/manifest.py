"""The manifest of a model file: how states are stored, what is checked before they are read, and older versions."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NoReturn, TypeVar

import torch
from pydantic import FailFast, Field, NonNegativeFloat, NonNegativeInt, PositiveInt, TypeAdapter
from torch import Tensor

from .bundle import MAX_STATES, HistoryEntry, ModelSpec
from .calibration import MAX_TEMPERATURE, MIN_TEMPERATURE, Calibration

FORMAT, VERSION = "upcl-model", 4
MANIFEST, SHARED, FEATURES = "manifest.json", "weights/shared.safetensors", "features.safetensors"
WEIGHTS, IMAGE, PICTURE = "weights/{}.safetensors", "images/{}.png", "pictures/{}.jpg"  # number of a state, or digest
MAX_BYTES = 4 * 2**30  # of a file, and of its samples in memory
MAX_SIZE = 1024  # pixels per side
MAX_DECODED = 100  # times the size of the file: images are compressed, and ten states may share them
MIN_DECODED = 2**26  # bytes that the samples of a file of any size may take

T = TypeVar("T")
Items = Annotated[list[T], FailFast()]  # one error is enough: millions of them would fill the memory
FixedItems = Annotated[tuple[T, ...], FailFast()]


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

    images: Items[str]
    labels: Items[int]
    rows: Items[NonNegativeInt] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.images) + len(self.rows)


@dataclass(frozen=True)
class StoredState:
    """A state as the manifest stores it; the attributes are those of `ModelState`.

    Example:
        >>> nothing = StoredSamples([], [])
        >>> StoredState("", (1,), ("cat",), nothing, nothing, "head", Calibration(1.0, -1.0, 0.0, 0)).classes
        ('cat',)
    """

    weights_sha256: str
    growth: FixedItems[PositiveInt]
    classes: FixedItems[str | None]
    exemplars: StoredSamples
    held_out: StoredSamples
    reading: Literal["head", "nme"]
    calibration: Calibration
    trained: dict[str, FixedItems[str]] = field(default_factory=dict)
    tested: dict[str, FixedItems[str]] = field(default_factory=dict)
    assigned: tuple[str, ...] | None = None  # older versions did not decide again: all of them
    strength: NonNegativeFloat | None = None
    method: Literal["", "ncm", "slda", "ridge", "ranpac"] = ""


SPEC = TypeAdapter(ModelSpec)
HISTORY: TypeAdapter[tuple[HistoryEntry, ...]] = TypeAdapter(FixedItems[HistoryEntry])
STATES = TypeAdapter(Annotated[dict[NonNegativeInt, StoredState], Field(min_length=1, max_length=MAX_STATES)])
PICTURES = TypeAdapter(dict[Annotated[str, Field(pattern=r"^[0-9a-f]{1,64}$")], str])


def parse_manifest(content: bytes) -> Any:
    """Parse JSON in which all numbers are finite.

    Args:
        content: the JSON.

    Raises:
        ValueError: if it is not JSON, or has a number that is not finite.

    Example:
        >>> parse_manifest(b'{"seconds": 1e999}')
        Traceback (most recent call last):
        ValueError: its manifest has a number that is not finite: 1e999
    """

    def refuse(text: str) -> NoReturn:
        raise ValueError(f"its manifest has a number that is not finite: {text}")

    def finite(text: str) -> float:
        return value if math.isfinite(value := float(text)) else refuse(text)

    return json.loads(content, parse_constant=refuse, parse_float=finite)


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
    in_range = all(0 <= value <= 1 for value in spec.mean) and all(0 < value < 1e3 for value in spec.std)
    if not len(spec.mean) == len(spec.std) == spec.channels or not in_range:
        raise ValueError("its mean and standard deviation do not match its images")
    if not re.fullmatch(r"[a-z0-9+]+", spec.method):  # in particular not FILE.py:Class, which would run code
        raise ValueError("its method is not part of this package")


def check_sample_bytes(num_bytes: int, file_bytes: int) -> None:
    """Check that the images or features of a model fit in memory, in proportion to its file.

    Args:
        num_bytes: bytes of all samples of all states.
        file_bytes: size of the file.

    Raises:
        ValueError: if they do not.

    Example:
        >>> check_sample_bytes(10**9, file_bytes=1000)
        Traceback (most recent call last):
        ValueError: its images would take 1,000,000,000 bytes, more than those of a file of 1,000 bytes may
    """
    if num_bytes > min(MAX_BYTES, max(MIN_DECODED, MAX_DECODED * file_bytes)):
        raise ValueError(
            f"its images would take {num_bytes:,} bytes, more than those of a file of {file_bytes:,} bytes may"
        )


def check_tensors(tensors: Mapping[str, Tensor]) -> None:
    """Check that tensors have values to compute with.

    Args:
        tensors: weights or features, by name.

    Raises:
        ValueError: if a value is not finite, or a variance is negative.

    Example:
        >>> check_tensors({"head.bias": torch.tensor([0.0, torch.nan])})
        Traceback (most recent call last):
        ValueError: head.bias has values that are not finite
    """
    for name, value in tensors.items():
        if not bool(torch.isfinite(value).all()):
            raise ValueError(f"{name} has values that are not finite")
        if name.endswith("running_var") and bool((value < 0).any()):
            raise ValueError(f"{name} has negative values")


def check_state(entry: StoredState) -> None:
    """Check what a state says about itself.

    Args:
        entry: the state.

    Raises:
        ValueError: if it contradicts itself.

    Example:
        >>> nothing = StoredSamples([], [])
        >>> check_state(StoredState("", (1,), ("cat",), nothing, nothing, "head", Calibration(1.0, -1.0, 0.0, 0)))
    """
    if sum(entry.growth) != len(entry.classes):
        raise ValueError("the number of classes does not match the network")
    names = {name for name in entry.classes if name is not None}
    if not any(names):
        raise ValueError("it has no classes")
    if len(names) < sum(name is not None for name in entry.classes):
        raise ValueError("two classes have the same name")
    if not names.issuperset([*entry.trained, *entry.tested]):
        raise ValueError("it lists images of a class that it does not have")
    if not MIN_TEMPERATURE <= entry.calibration.temperature <= MAX_TEMPERATURE:
        raise ValueError("its calibration is invalid")
