from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Invoke
from upcl import GrowingClassifier


def test_missing_packages_of_serve_are_named(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = invoke("serve", "m.upcl")
    assert done.exit_code == 2
    assert done.stderr == "error: serving needs uvicorn: pip install 'upcl[serve]'\n"


@pytest.mark.parametrize("option", ["--onnx", "--torch"])
def test_export_is_refused_under_the_name_of_a_model(option: str, invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "other.upcl").write_text("a model")
    for name in ("other.upcl", "new.upcl"):
        done = invoke("export", "m.upcl", option, name)
        assert done.exit_code == 2
        assert done.stderr.startswith(f"error: {name}: an export must not overwrite a model")
    assert (tmp_path / "other.upcl").read_text() == "a model"


def test_options_of_an_8_bit_export_belong_together(invoke: Invoke) -> None:
    done = invoke("export", "m.upcl", "--torch", "m.pt2", "--quantize", "int8")
    assert done.exit_code == 2 and done.stderr == "error: --quantize applies to ONNX: add --onnx FILE\n"
    done = invoke("export", "m.upcl", "--onnx", "m.onnx", "--photos", ".")
    assert done.exit_code == 2 and done.stderr == "error: --photos is for --quantize: add --quantize int8\n"


@pytest.mark.filterwarnings("ignore")  # of PyTorch's exporter
def test_an_8_bit_export_is_compared_with_the_float_model(invoke: Invoke) -> None:
    images = np.random.default_rng(0).integers(0, 256, (20, 8, 8), dtype=np.uint8)
    GrowingClassifier("m.upcl", epochs=1).fit(images, ["cat", "dog"] * 10)
    done = invoke("export", "m.upcl", "--onnx", "m.onnx", "--quantize", "int8")
    assert done.exit_code == 0, done.stderr
    assert all(word in done.stdout for word in ("float32", "int8", "points lost", "written to m.onnx"))
