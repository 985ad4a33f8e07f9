from __future__ import annotations

import pytest
import torch

from upcl.core.errors import UserError
from upcl.training.environment import compile_error, environment, peak_memory_mb, reset_peak_memory, select_device

CPU = torch.device("cpu")


def test_devices_by_name() -> None:
    assert select_device("cpu") == CPU
    assert select_device("auto").type in ("cpu", "cuda", "mps")
    for name in ("gpu", "meta"):
        with pytest.raises(UserError, match=f"unknown device '{name}': choose auto, cpu, cuda"):
            select_device(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_missing_device_is_reported() -> None:
    with pytest.raises(UserError, match="device 'cuda' is not available: "):
        select_device("cuda")


def test_peak_memory_follows_allocations() -> None:
    reset_peak_memory(CPU)
    before = peak_memory_mb(CPU)
    ballast = torch.zeros(200 * 2**20 // 4).add_(1)
    after = peak_memory_mb(CPU)
    assert before and after
    assert after - before > 150, f"{len(ballast)} numbers were allocated"


def test_environment_names_versions_and_threads() -> None:
    found = environment(CPU, compiled=True)
    assert found["torch"] == torch.__version__.partition("+")[0] or found["torch"] == torch.__version__
    assert (found["device"], found["threads"], found["compiled"]) == ("cpu", torch.get_num_threads(), True)


def test_compile_error_is_the_first_line_of_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> object:
        raise RuntimeError("no compiler\nlong trace")

    monkeypatch.setattr(torch, "compile", broken)
    assert compile_error(CPU) == "no compiler"
