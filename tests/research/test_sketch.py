from __future__ import annotations

from pathlib import Path

import numpy as np

import upcl
from tests.runs import STREAM, quick_run


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
    assert all(label != taken and record.confusion.head[label][taken] > 0 for label, taken in pairs)
    data = upcl.load_dataset(STREAM)
    known = {bytes(image) for image in data.train.inputs.numpy().reshape(len(data.train), -1)}
    assert all(image.tobytes() in known for image in sketch["exemplars"]), "thumbnails are the images themselves"
