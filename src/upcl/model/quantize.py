"""Exported models with 8-bit weights and activations: smaller and faster, and compared with the float model."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from upcl.core.errors import UserError
from upcl.core.files import atomic_path
from upcl.data.io.images import BrokenImageError, read_image
from upcl.data.io.listing import list_image_files
from upcl.data.io.paths import printable_path

from .learner import Learner
from .photo_features import photo_digest

NUM_RANGE_PHOTOS = 100  # that the ranges of activations are measured on
MAX_TEST_PHOTOS = 500
LAYERS = ("Conv", "Add", "Clip", "Relu", "MaxPool")


@dataclass(frozen=True, eq=False)
class LabelledPhotos:
    """Photos with the names of their classes, in two parts that share no photo.

    Args:
        ranges: uint8 RGB photos (H x W x 3) to measure the ranges of activations on.
        test: photos to compare models on.
        names: the classes of `test`.

    Example:
        >>> LabelledPhotos([np.zeros((8, 8, 3), np.uint8)], [np.ones((8, 8, 3), np.uint8)], ["cat"]).names
        ['cat']
    """

    ranges: Sequence[np.ndarray]
    test: Sequence[np.ndarray]
    names: Sequence[str]


@dataclass(frozen=True)
class Measured:
    """What an exported model costs, and how well it does.

    Args:
        megabytes: size of its file.
        milliseconds: time per photo, one at a time.
        accuracy: percent of the photos whose class is named correctly.

    Example:
        >>> Measured(megabytes=14.5, milliseconds=17.0, accuracy=75.5).accuracy
        75.5
    """

    megabytes: float
    milliseconds: float
    accuracy: float


def labelled_photos(learner: Learner, folder: Path | None) -> LabelledPhotos:
    """Find photos to quantise with: in a folder, or the held-out images that the model stores.

    Photos of the folder that were learned from set the ranges, and others are compared, if there are both.

    Args:
        learner: the model.
        folder: its sub-folders are classes; None if the model stores images.

    Raises:
        UserError: if there are too few.

    Example:
        >>> labelled_photos(Learner("birds.upcl"), Path("birds"))  # doctest: +SKIP
    """
    bundle = learner.require_bundle()
    state = bundle.state
    if folder is None:
        if bundle.spec.features:
            raise UserError("this model stores no images to calibrate the 8-bit ranges with: add --photos FOLDER")
        if not len(state.held_out):
            raise UserError("the model has no held-out images to compare with: add --photos FOLDER")
        names = [str(state.classes[label]) for label in state.held_out.labels.tolist()]
        exemplars, held_out = _colour(state.exemplars.inputs), _colour(state.held_out.inputs)
        return LabelledPhotos(_spread(exemplars or held_out, NUM_RANGE_PHOTOS), held_out, names)
    files = [file for file in list_image_files(folder).files if file.label in learner.classes and not file.error]
    learned, others = [], files
    if bundle.spec.features:  # photos are recognised by the content of their files
        known = {digest for digests in state.trained.values() for digest in digests}
        is_learned = [photo_digest(file.path) in known for file in files]
        learned = [file for file, found in zip(files, is_learned, strict=True) if found]
        others = [file for file, found in zip(files, is_learned, strict=True) if not found]
    if not learned or not others:  # all or none were learned from: every second photo is compared
        learned, others = files[::2], files[1::2]
    others = _spread(others, MAX_TEST_PHOTOS)
    if not others:
        raise UserError(f"{printable_path(folder)} contains too few photos of this model's classes: at least two")
    test = [(pixels, file.label) for file in others if (pixels := _read(file.path)) is not None]
    ranges = [pixels for file in _spread(learned, NUM_RANGE_PHOTOS) if (pixels := _read(file.path)) is not None]
    return LabelledPhotos(ranges, [pixels for pixels, _ in test], [name for _, name in test])


def _colour(images: Tensor) -> list[np.ndarray]:
    """Stored images (N x C x H x W) as RGB photos."""
    return list(images.expand(-1, 3, -1, -1).permute(0, 2, 3, 1).numpy()) if len(images) else []


def _spread(items: Sequence[Any], num: int) -> list[Any]:
    """At most `num` items, evenly spaced."""
    return list(items[:: max(1, -(-len(items) // num))])


def _read(path: Path) -> np.ndarray | None:
    try:
        return np.asarray(read_image(path).convert("RGB"))
    except BrokenImageError:
        return None


def quantize_onnx(source: Path, target: Path, photos: Sequence[np.ndarray]) -> None:
    """Write a model whose convolutions compute with 8-bit integers. What comes before and after them stays as it is.

    Args:
        source: an ONNX file that `export_onnx` wrote.
        target: the file to create or replace.
        photos: uint8 RGB photos (H x W x 3), which the ranges of activations are measured on.

    Example:
        >>> quantize_onnx(Path("birds.onnx"), Path("birds-int8.onnx"), photos)  # doctest: +SKIP
    """
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.waiting = iter(photos)

        def get_next(self) -> dict[str, np.ndarray] | None:
            photo = next(self.waiting, None)
            return None if photo is None else {"images": photo[None]}

    nodes = onnx.load(str(source)).graph.node
    places = [i for i, node in enumerate(nodes) if node.op_type == "Conv"]
    network = nodes[places[0] : places[-1] + 2]  # from the first convolution to the activation after the last one
    with atomic_path(target) as partial:
        quantize_static(
            str(source),
            str(partial),
            Reader(),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=list(LAYERS),
            nodes_to_quantize=[node.name for node in network if node.op_type in LAYERS],
            per_channel=True,
            weight_type=QuantType.QInt8,
            activation_type=QuantType.QUInt8,
        )


def measure_onnx(paths: Sequence[Path], photos: LabelledPhotos) -> list[Measured]:
    """Measure exported models side by side: photo by photo, each by all models.

    Args:
        paths: ONNX files that `export_onnx` or `quantize_onnx` wrote.
        photos: the photos to classify.

    Example:
        >>> measure_onnx([Path("birds.onnx"), Path("birds-int8.onnx")], photos)  # doctest: +SKIP
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
    options.log_severity_level = 3
    sessions = [onnxruntime.InferenceSession(path.read_bytes(), options) for path in paths]  # of any name
    classes = json.loads(sessions[0].get_modelmeta().custom_metadata_map["classes"])
    seconds, correct = np.zeros((len(paths), len(photos.test))), np.zeros((len(paths), len(photos.test)))
    for i, (photo, name) in enumerate(zip(photos.test, photos.names, strict=True)):
        for k, session in enumerate(sessions):
            start = time.perf_counter()
            confidence, _ = session.run(None, {"images": photo[None]})
            seconds[k, i] = time.perf_counter() - start
            correct[k, i] = classes[confidence[0].argmax()] == name
    return [
        Measured(path.stat().st_size / 1e6, 1000 * float(np.median(seconds[k])), 100 * float(correct[k].mean()))
        for k, path in enumerate(paths)
    ]
