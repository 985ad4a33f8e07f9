from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import upcl
from tests.runs import STREAM, quick_run
from upcl.research import sketch as module


def test_sketch_agrees_with_the_record(tmp_path: Path) -> None:
    record = quick_run("upcl", out=tmp_path / "run")
    with np.load(tmp_path / "run" / "sketch.npz", allow_pickle=False) as file:
        sketch = dict(file)
    num = len(record.classes)
    assert len(sketch["features"]) == len(sketch["labels"])
    assert sketch["vectors"].shape == (num, sketch["features"].shape[1])
    assert set(sketch["exemplar_labels"]) == set(range(num))
    pairs = list(zip(sketch["error_labels"].tolist(), sketch["error_taken"].tolist(), strict=True))
    assert pairs
    confusion = np.array(record.confusion.head)
    assert all(label != taken and confusion[label, taken] > 0 for label, taken in pairs)
    data = upcl.load_dataset(STREAM)
    known = {bytes(image) for image in data.train.inputs.numpy().reshape(len(data.train), -1)}
    assert all(image.tobytes() in known for image in sketch["exemplars"]), "thumbnails are the images themselves"


def test_exemplars_of_the_first_classes_only_are_kept_for_the_gallery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EXEMPLAR_CLASSES", 3)
    quick_run("icarl", out=tmp_path / "run")
    with np.load(tmp_path / "run" / "sketch.npz", allow_pickle=False) as file:
        assert set(file["exemplar_labels"]) == {0, 1, 2}
