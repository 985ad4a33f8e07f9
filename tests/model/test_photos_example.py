"""`examples/photos.py` runs on tiny data and shows what it promises."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from upcl.training.pretrained import default_pretrained

EXAMPLE = Path(__file__).parents[2] / "examples" / "photos.py"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The example with three classes of a few photos."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("onnxruntime")
    spec = importlib.util.spec_from_file_location("photos_example", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "REGIONS", dict(list(module.REGIONS.items())[:3]))
    for name, value in {"NUM_PHOTOS": 6, "NUM_NEW": 2, "LOTS": (2, 1)}.items():
        monkeypatch.setattr(module, name, value)
    quick = dataclasses.replace(module.SCRATCH, backbone="small", size=16, epochs=1)
    monkeypatch.setattr(module, "SCRATCH", quick)
    return module


@pytest.mark.skipif(default_pretrained() is None, reason="pip install 'upcl[photos]'")
def test_the_life_of_a_model_is_shown(example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example.main(tmp_path / "no data", tmp_path / "work")
    shown = " ".join(capsys.readouterr().out.split())
    assert "3 classes of crops of three photographs, 6 photos each" in shown and "efficientnet-lite0" in shown
    for words in ("from scratch, upcl", "a photo of 'roof' moved to 'arcade' and corrected in", "'lawn' forgotten in"):
        assert words in shown
    assert "exported to photos.onnx" in shown and (tmp_path / "work" / "photos.onnx").stat().st_size > 1e6


def test_the_folder_of_data_is_the_argument_the_variable_or_the_shared_one(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPCL_DATA", "/variable")
    assert example.data_folder(["/argument"]) == Path("/argument")
    assert example.data_folder([]) == Path("/variable")
    monkeypatch.delenv("UPCL_DATA")
    assert example.data_folder([]) == EXAMPLE.resolve().parents[2] / "shared" / "data"
