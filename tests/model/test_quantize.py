"""Models with 8-bit integers: the photos they are made with, their size, and how little their predictions change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from upcl.core.errors import UserError
from upcl.model.export import export_onnx
from upcl.model.learner import Learner
from upcl.model.quantize import labelled_photos, measure_onnx, quantize_onnx

pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch's exporter


def test_an_8_bit_model_is_smaller_and_agrees(model_file: Path, tmp_path: Path) -> None:
    import onnx
    import onnxruntime

    learner = Learner(model_file)
    photos = labelled_photos(learner, None)
    assert photos.ranges and len(photos.test) == len(photos.names) == len(learner.require_bundle().state.held_out)
    export_onnx(learner, tmp_path / "float.onnx")
    quantize_onnx(tmp_path / "float.onnx", tmp_path / "int8.onnx", photos.ranges)
    exact, small = measure_onnx([tmp_path / "float.onnx", tmp_path / "int8.onnx"], photos)
    odd = (tmp_path / "int8.onnx").rename(tmp_path / "not text \udce9.onnx")
    assert measure_onnx([odd], photos)[0].accuracy == small.accuracy, "a name that is not UTF-8"
    odd.rename(tmp_path / "int8.onnx")
    assert small.megabytes < exact.megabytes / 2 and small.milliseconds > 0
    assert abs(small.accuracy - exact.accuracy) <= 100 / len(photos.test)
    outputs = [
        onnxruntime.InferenceSession(str(tmp_path / name)).run(None, {"images": np.stack(photos.test)})
        for name in ("float.onnx", "int8.onnx")
    ]
    assert 0 < np.abs(outputs[0][0] - outputs[1][0]).max() < 0.2
    stored = [{p.key: p.value for p in onnx.load(tmp_path / n).metadata_props} for n in ("float.onnx", "int8.onnx")]
    assert stored[0]["classes"] == stored[1]["classes"] and stored[0]["threshold"] == stored[1]["threshold"]


def test_photos_of_a_folder_are_divided_without_overlap(model_file: Path, photos: Path) -> None:
    learner = Learner(model_file)
    found = labelled_photos(learner, photos / "first")
    assert set(found.names) <= set(learner.classes)
    ranges = {photo.tobytes() for photo in found.ranges}
    assert ranges and not ranges & {photo.tobytes() for photo in found.test}


def test_a_folder_without_known_classes_is_refused(model_file: Path, tmp_path: Path) -> None:
    (tmp_path / "other" / "unknown class").mkdir(parents=True)
    (tmp_path / "other" / "unknown class" / "a.png").write_bytes(b"")
    with pytest.raises(UserError, match="contains too few photos of this model's classes"):
        labelled_photos(Learner(model_file), tmp_path / "other")
