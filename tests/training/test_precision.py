"""The choice of the precision: cached, stored with a run, never changed by a resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.runs import Stop
from upcl import Request, run
from upcl.core.files import write_json
from upcl.data.io.paths import cache_root
from upcl.research.config import resolve
from upcl.research.grid import make_grid, prepare
from upcl.training import precision
from upcl.training.precision import choose_precision, processor, stored_precision

CPU = torch.device("cpu")
DATA = "synthetic:classes=4,size=16,train=8,test=4"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UPCL_CACHE", str(tmp_path / "cache"))
    return cache_root() / "precision.json"


def decide(cache: Path, value: str) -> None:
    cache.parent.mkdir(exist_ok=True)
    write_json(cache, {processor(): value})


def test_it_is_measured_once_per_processor(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def measure() -> str:
        calls.append(1)
        return "bfloat16"

    monkeypatch.setattr(precision, "faster_precision", measure)
    assert [choose_precision(CPU, 32) for _ in range(3)] == ["bfloat16"] * 3
    assert len(calls) == 1
    assert json.loads(cache.read_text()) == {processor(): "bfloat16"}
    monkeypatch.setattr(precision, "processor", lambda: "another one")
    assert choose_precision(CPU, 32) == "bfloat16" and len(calls) == 2


@pytest.mark.parametrize("content", ["", "[1]", '{"a": 1}', "{"])
def test_a_damaged_cache_is_measured_again(cache: Path, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text(content)
    monkeypatch.setattr(precision, "faster_precision", lambda: "float32")
    assert choose_precision(CPU, 32) == "float32"


def test_a_cache_that_cannot_be_written_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("UPCL_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(precision, "faster_precision", lambda: "float32")
    assert choose_precision(CPU, 32) == "float32"


def test_tiny_images_are_not_worth_a_conversion(cache: Path) -> None:
    decide(cache, "bfloat16")
    assert choose_precision(CPU, 8) == "float32" and choose_precision(CPU, 32) == "bfloat16"


def test_the_measurement_leaves_random_numbers_and_threads_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    wanted = torch.rand(3)
    torch.manual_seed(0)
    asked: list[int] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    assert precision.faster_precision() in ("float32", "bfloat16")
    assert torch.equal(torch.rand(3), wanted) and asked == [1, 3]


def test_auto_is_the_default_of_fast_recipes_only(cache: Path) -> None:
    decide(cache, "bfloat16")

    def chosen(**values: Any) -> str:
        request = Request(method="icarl", data=DATA, **values)
        return resolve(request, request.load_dataset(), request.method_class).precision

    assert chosen(recipe="quick") == "bfloat16"
    assert chosen(recipe="own") == chosen(recipe="paper") == "float32"
    assert chosen(recipe="own", precision="auto") == "bfloat16"
    assert chosen(recipe="quick", precision="float32") == "float32"


def test_a_resume_keeps_the_precision_whatever_the_processor_prefers(cache: Path, tmp_path: Path) -> None:
    decide(cache, "bfloat16")
    request = Request(method="finetune", data=DATA, tasks=2, epochs=1, precision="auto")
    whole = run(request)

    def stop(progress: Any) -> None:
        if progress.accuracy is not None:
            raise Stop

    with pytest.raises(Stop):
        run(request, out=tmp_path / "run", on_progress=stop)
    decide(cache, "float32")
    resumed = run(request, out=tmp_path / "run", resume=True)
    assert resumed.config.precision == "bfloat16"
    assert resumed.weights_sha256 == whole.weights_sha256


def test_a_grid_keeps_the_precision_too(cache: Path, tmp_path: Path) -> None:
    decide(cache, "bfloat16")
    grid = make_grid({"same": {"data": DATA, "recipe": "quick"}, "vary": {"seed": [0, 1]}}, "test")
    begun = prepare(grid, tmp_path, None)[0]
    begun.folder.mkdir()
    decide(cache, "float32")
    runs = prepare(grid, tmp_path, None)
    assert [run.config.precision for run in runs if run.config] == ["bfloat16", "float32"]
    assert [run.job.request.precision for run in runs] == ["bfloat16", "float32"]


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"precision": "float16"}', '{"precision": 3}'])
def test_a_damaged_config_has_no_precision(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    assert stored_precision(tmp_path) is None
    assert stored_precision(tmp_path / "nothing") is None
