"""The result of a run as a typed, validated record; `record.schema.json` is its JSON schema."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import pydantic
from annotated_types import Ge, Lt
from pydantic import BaseModel, ConfigDict

from upcl.core.errors import UserError
from upcl.core.files import parse_json, write_json
from upcl.core.identity import json_sha256
from upcl.training.evaluate import READINGS, ReadingName

from .config import RunConfig
from .protocol import PROTOCOLS

SCHEMA = 2
FILE_NAME = "record.json"
MEASURED = ("seconds", "peak_memory_mb", "environment")
"""Fields whose values depend on the machine and the moment; all others are equal for every run of a config."""
REPEATED = ("method", "data", "seed", "order_seed", "protocol", "select")
"""Fields that repeat those of the config."""
BY_TASK = ("imbalance_ratio", "coherence", "exemplars", "peak_memory_mb")
"""Fields with one value per finished task, next to those by reading."""
COSTS = ("parameters", "network_bytes", "exemplar_bytes", "total_bytes", "multiply_adds")
"""Fields with one value per finished task that records of version 0.1 do not have."""

Size = Annotated[int, Ge(0), Lt(2**63)]
T = TypeVar("T")


class ByReading(BaseModel, Generic[T]):
    """A value for each reading of a model.

    Args:
        head: by the classifier.
        nme: by the nearest mean of exemplars; None for a model without exemplars.
        both: by both together; None for a model without exemplars, and in records of version 0.1.

    Example:
        >>> accuracy = ByReading[float](head=81.5, nme=None)
        >>> accuracy["head"], accuracy.nme
        (81.5, None)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    head: T
    nme: T | None
    both: T | None = None

    def __getitem__(self, reading: ReadingName) -> T | None:
        value: T | None = getattr(self, reading)
        return value


class SparseCounts(BaseModel):
    """The entries of a confusion matrix that are not zero, row by row.

    Args:
        labels: the row of each entry, a class.
        predicted: its column, the class that was predicted.
        counts: its value, a number of test images.

    Example:
        >>> SparseCounts(labels=[0, 1], predicted=[1, 1], counts=[5, 3]).counts
        [5, 3]
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    labels: list[int]
    predicted: list[int]
    counts: list[int]


class Record(BaseModel):
    """Everything that came out of a run. Lists have one item per finished task; accuracies are in percent.

    Args:
        schema_version: version of this schema (`schema` in JSON).
        finished: whether all tasks were learned.
        method: name of the method.
        data: name of the data set.
        classes: class names in class order.
        class_order: labels of the data set in class order.
        task_sizes: number of classes of each task.
        seed: seed of initialisation and sampling.
        order_seed: seed of the class order.
        protocol: `honest` or `paper`.
        select: rule that selects the epoch a task ends with.
        config: the resolved configuration.
        config_digest: SHA-256 of the configuration, the identity of the run.
        notes: what a reader must know before comparing this run with another.
        a_last: accuracy on all classes after the last finished task.
        a_avg: mean of the accuracies after each task.
        forgetting: mean drop from the best accuracy on each earlier task; None after one task.
        backward_transfer: mean change on each earlier task since it was learned; None after one task.
        top1: accuracy on all classes seen.
        top5: share of images whose class is among the five highest scores.
        top1_matrix: row t, column j: accuracy on the classes of task j after task t.
        top5_matrix: the same for the top five.
        top1_by_class: accuracy on each class seen.
        old: accuracy on the classes of earlier tasks; None for the first task.
        new: accuracy on the classes of the latest task.
        confusion: row i, column j: test images of class i predicted as class j, after the last finished task; of the
            head only. With more than 1,000 classes, the entries that are not zero.
        imbalance_ratio: images of the largest class over those of the smallest in training.
        coherence: largest cosine between two class vectors of the head.
        exemplars: number of exemplars kept.
        parameters: numbers of the network that must be kept; like the four fields below, None in records of version
            0.1.
        network_bytes: their bytes.
        exemplar_bytes: bytes of the exemplars.
        total_bytes: bytes of network and exemplars together.
        multiply_adds: multiply-adds of a prediction for one image.
        seconds: training time.
        peak_memory_mb: peak memory in MiB.
        weights_sha256: SHA-256 of all weights.
        environment: versions, device and threads.

    Example:
        >>> from upcl import Request, run
        >>> record = run(Request(method="finetune", data="synthetic:classes=2,train=4,test=4", tasks=2, epochs=1))
        >>> len(record.top1.head), record.top1.nme
        (2, None)
        >>> Record.from_json(record.to_json()) == record
        True
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)

    schema_version: Literal[2] = pydantic.Field(default=2, alias="schema")
    finished: bool
    method: str
    data: str
    classes: list[str]
    class_order: list[int]
    task_sizes: list[int]
    seed: int
    order_seed: int
    protocol: str
    select: str
    config: RunConfig
    config_digest: str
    notes: list[str]
    a_last: ByReading[float]
    a_avg: ByReading[float]
    forgetting: ByReading[float | None]
    backward_transfer: ByReading[float | None]
    top1: ByReading[list[float]]
    top5: ByReading[list[float]]
    top1_matrix: ByReading[list[list[float]]]
    top5_matrix: ByReading[list[list[float]]]
    top1_by_class: ByReading[list[list[float | None]]]
    old: ByReading[list[float | None]]
    new: ByReading[list[float]]
    confusion: ByReading[list[list[int]] | SparseCounts]
    imbalance_ratio: list[float | None]
    coherence: list[float | None]
    exemplars: list[Size]
    parameters: list[Size] | None = None
    network_bytes: list[Size] | None = None
    exemplar_bytes: list[Size] | None = None
    total_bytes: list[Size] | None = None
    multiply_adds: list[Size] | None = None
    seconds: list[float]
    peak_memory_mb: list[float | None]
    weights_sha256: str
    environment: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The JSON value that `record.json` holds."""
        value = self.model_dump(mode="json", by_alias=True, exclude={"config"})
        return {key: self.config.to_json() if key == "config" else value[key] for key in _json_keys()}

    @staticmethod
    def from_json(value: Any, where: str = "record") -> Record:
        """Validate a JSON value.

        Args:
            value: a parsed `record.json`.
            where: what to call it in an error message.

        Raises:
            UserError: if it is not a record of this schema.
        """
        schema = value.get("schema") if isinstance(value, Mapping) else None
        if schema != SCHEMA:
            raise UserError(f"{where} has record schema {schema}; this version of upcl reads schema {SCHEMA}")
        try:
            record = Record.model_validate(value)
            place, reason = _find_contradiction(record, value["config"]), "it contradicts the other fields"
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            place, reason = ".".join(map(str, first["loc"])), first["msg"]
        if place:
            raise UserError(
                f"{where} is damaged or was written by another version of upcl: '{place}': {reason}; run it again"
            )
        return record

    @staticmethod
    def read(folder: Path) -> Record:
        """Read and validate the record of a run's folder.

        Args:
            folder: the run's folder.

        Raises:
            UserError: if there is no valid record.
        """
        path = folder / FILE_NAME
        try:
            content = parse_json(path.read_text())
        except (OSError, ValueError) as error:
            raise UserError(f"{path} cannot be read: it is not JSON ({error})") from None
        return Record.from_json(content, str(path))

    def write(self, folder: Path) -> None:
        """Write `record.json` atomically.

        Args:
            folder: the run's folder.
        """
        write_json(folder / FILE_NAME, self.to_json())

    def reproducible_part(self) -> dict[str, Any]:
        """What must be equal for two runs of one config: all but measurements of time, memory and environment."""
        return {key: value for key, value in self.to_json().items() if key not in MEASURED}


def _find_contradiction(record: Record, config: Any) -> str:
    """Name a field that does not fit the others; "" if all do.

    Args:
        record: a record whose types are right.
        config: its config as it was stored: later versions have more fields.
    """
    sizes, done = record.task_sizes, len(record.seconds)
    if json_sha256(config) != record.config_digest or record.protocol not in PROTOCOLS:
        return "config_digest"
    if wrong := [name for name in REPEATED if getattr(record, name) != getattr(record.config, name)]:
        return wrong[0]
    if tuple(sizes) != record.config.task_sizes or min(sizes, default=0) < 1 or done > len(sizes):
        return "task_sizes"
    if len(record.classes) != sum(sizes) or sorted(record.class_order) != list(range(sum(sizes))):
        return "class_order"
    return _find_wrong_length(record) if done else ""


def _find_wrong_length(record: Record) -> str:
    """Name a field that has too many or too few values, on which readers rely; "" if there is none."""
    done = len(record.seconds)
    seen, tasks = list(accumulate(record.task_sizes[:done])), list(range(1, done + 1))
    rows = {"top1_matrix": tasks, "top5_matrix": tasks, "top1_by_class": seen}
    for name in (*BY_TASK, "top1", "top5", "old", "new", *rows):
        found = getattr(record, name)
        curves = [found] if isinstance(found, list) else [found[reading] for reading in READINGS]
        for values in (curve for curve in curves if curve is not None):
            if len(values) != done or (name in rows and [len(row) for row in values] != rows[name]):
                return name
    for name in COSTS:
        if (values := getattr(record, name)) is not None and len(values) != done:
            return name
    if record.network_bytes and record.exemplar_bytes and record.total_bytes:
        pairs = zip(record.network_bytes, record.exemplar_bytes, strict=True)
        if record.total_bytes != [sum(pair) for pair in pairs]:
            return "total_bytes"
    return "" if _is_confusion(record.confusion.head, seen[-1]) else "confusion"


def _is_confusion(counts: list[list[int]] | SparseCounts, num_classes: int) -> bool:
    if isinstance(counts, SparseCounts):
        inside = all(0 <= label < num_classes for label in (*counts.labels, *counts.predicted))
        return inside and len(counts.labels) == len(counts.predicted) == len(counts.counts)
    is_square = [len(row) for row in counts] == [num_classes] * num_classes
    return is_square and all(0 <= count < 2**53 for row in counts for count in row)


def _json_keys() -> list[str]:
    return [field.alias or name for name, field in Record.model_fields.items()]


def finished_record(folder: Path, config: RunConfig) -> Record | None:
    """The record of a run of this config that is finished; None where there is none.

    Args:
        folder: the run's folder.
        config: the resolved configuration.

    Example:
        >>> finished_record(Path("does-not-exist"), config=None) is None
        True
    """
    try:
        record = Record.read(folder)
    except UserError:
        return None
    return record if record.finished and record.config_digest == config.digest() else None
