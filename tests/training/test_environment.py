from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from upcl.core.errors import UserError
from upcl.training.environment import compile_error, environment, select_device

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


PEAK = """
import torch
from upcl.training.environment import peak_memory_mb, reset_peak_memory
reset_peak_memory(torch.device("cpu"))
before = peak_memory_mb(torch.device("cpu"))
ballast = torch.zeros(200 * 2**20 // 4).add_(1)
print(peak_memory_mb(torch.device("cpu")) - before)
"""


def test_peak_memory_follows_allocations() -> None:
    """In a process of its own: the system may take memory from a large one meanwhile."""
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    assert 150 < float(done.stdout) < 300


def test_environment_names_versions_and_threads() -> None:
    found = environment(CPU, compiled=True)
    assert found["torch"] == torch.__version__.partition("+")[0] or found["torch"] == torch.__version__
    assert (found["device"], found["threads"], found["compiled"]) == ("cpu", torch.get_num_threads(), True)


def test_compile_error_is_the_first_line_of_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> object:
        raise RuntimeError("no compiler\nlong trace")

    monkeypatch.setattr(torch, "compile", broken)
    assert compile_error(CPU) == "no compiler"
