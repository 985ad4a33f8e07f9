"""How much memory a stretch of work needs at its peak."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from upcl.core.errors import UserError

DEVICES = ("cpu", "cuda", "mps")


def select_device(name: str) -> torch.device:
    """`auto` takes the best accelerator there is."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if name.partition(":")[0] not in DEVICES:
        raise UserError(f"unknown device '{name}': choose auto, cpu, cuda, cuda:1 or mps")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"device '{name}' cannot be used here: {str(error).splitlines()[0]}") from None
    return device


def compile_error(device: torch.device) -> str:
    """Why networks cannot be compiled here, found out on something small; empty if they can."""
    try:
        torch.compile(lambda x: x.sin() + 1)(torch.zeros(8, device=device))
    except Exception as error:  # the compiler's tools fail in many ways
        return str(error).strip().splitlines()[0] or type(error).__name__
    return ""


def reset_peak_memory(device: torch.device) -> None:
    """Forget the peak so far, where the system can (accelerators, Linux)."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif sys.platform == "linux":
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:  # not allowed in some containers: the peak is then that of the whole process
            return


def peak_memory_mb(device: torch.device) -> float | None:
    """The peak since the last reset, in MiB. None on Windows, whose Python does not tell."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    if sys.platform == "win32":
        return None
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_text()
        if peak := re.search(r"VmHWM:\s+(\d+) kB", status):
            return int(peak[1]) / 2**10
    import resource

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


@contextmanager
def deterministic(device: torch.device) -> Iterator[None]:
    """Ask an accelerator for repeatable kernels; the CPU's are so already. (Not run here: there is no accelerator.)"""
    if device.type != "cuda":
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def environment(device: torch.device, *, compiled: bool = False) -> dict[str, Any]:
    """Versions and machine, for whoever wants to know why two numbers differ."""
    packages = ("upcl", "torch", "numpy", "scipy", "scikit-learn", "pillow")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "platform": platform.platform(terse=True),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "compiled": compiled,
    }
