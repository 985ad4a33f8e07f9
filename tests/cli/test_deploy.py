from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke


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
