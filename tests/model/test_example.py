"""`examples/growing_model.py` runs and shows what it promises."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from upcl.data.io.decoding import decode_images
from upcl.model.learner import Learner

EXAMPLE = Path(__file__).parents[2] / "examples" / "growing_model.py"


@pytest.mark.filterwarnings("ignore")
def test_the_example_grows_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import onnxruntime

    spec = importlib.util.spec_from_file_location("growing_model", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main(tmp_path) >= 0.6
    assert "skipped" not in capsys.readouterr().out
    grown, finetuned = (
        Learner(tmp_path / name).require_bundle().history[-1].mean_accuracy("0123") or 0.0
        for name in ("digits.upcl", "finetune.upcl")
    )
    assert grown > finetuned + 30
    session = onnxruntime.InferenceSession(str(tmp_path / "digits.onnx"))
    photos = sorted((tmp_path / "new").iterdir())
    pixels = np.stack([np.asarray(Image.open(photo).convert("RGB")) for photo in photos])
    confidence, _ = session.run(None, {"images": pixels})
    expected = Learner(tmp_path / "digits.upcl").predictor.predict(decode_images(photos, 8, 1, "digits")).confidence
    assert (confidence.argmax(1) == expected.argmax(1).numpy()).all()
    assert np.abs(confidence - expected.numpy()).max() < 1e-4, "the grey model takes RGB and converts it as Pillow does"
