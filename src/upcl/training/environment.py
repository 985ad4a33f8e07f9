"""The machine: device, determinism, versions and peak memory."""

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
    """The device of this name.

    Args:
        name: cpu, cuda, cuda:1, mps, or auto for the best one available.

    Raises:
        UserError: if the device is unknown or cannot be used.

    Example:
        >>> select_device("cpu")
        device(type='cpu')
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if name.partition(":")[0] not in DEVICES:
        raise UserError(f"unknown device '{name}': choose auto, cpu, cuda, cuda:1 or mps")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"device '{name}' is not available: {str(error).splitlines()[0]}") from None
    return device


def compile_error(device: torch.device) -> str:
    """Why `torch.compile` does not work on this machine; empty if it does.

    Args:
        device: where to compile a small function.

    Example:
        >>> compile_error(torch.device("cpu"))  # doctest: +SKIP
        ''
    """
    try:
        torch.compile(lambda x: x.sin() + 1)(torch.zeros(8, device=device))
    except Exception as error:  # the compiler's tools fail in many ways
        return str(error).strip().splitlines()[0] or type(error).__name__
    return ""


def reset_peak_memory(device: torch.device) -> None:
    """Reset the peak of the memory use, where the system allows it (accelerators, Linux).

    Args:
        device: the device in use.

    Example:
        >>> reset_peak_memory(torch.device("cpu"))
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif sys.platform == "linux":
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:  # not allowed in some containers: the peak is then that of the whole process
            return


def peak_memory_mb(device: torch.device) -> float | None:
    """The peak memory use since the last reset, in MiB; None on Windows.

    Args:
        device: the device in use; on the CPU, the memory of the process counts.

    Example:
        >>> peak_memory_mb(torch.device("cpu")) > 1
        True
    """
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
    """Use deterministic kernels on an accelerator; those of the CPU always are. (Not tested: no accelerator in CI.)

    Args:
        device: the device in use.

    Example:
        >>> with deterministic(torch.device("cpu")):
        ...     pass
    """
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
    """Versions, device and threads: what may explain a difference between two numbers.

    Args:
        device: the device in use.
        compiled: whether the backbone is compiled.

    Example:
        >>> environment(torch.device("cpu"))["device"]
        'cpu'
    """
    packages = ("upcl", "torch", "numpy", "scipy", "scikit-learn", "pillow")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "platform": platform.platform(terse=True),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "compiled": compiled,
    }
