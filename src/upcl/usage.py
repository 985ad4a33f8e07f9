"""How much memory a stretch of work needs at its peak."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import torch


def reset_peak(device: torch.device) -> None:
    """Forget the peak so far, where the system can (accelerators, Linux)."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif sys.platform == "linux":
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:  # not allowed in some containers: the peak is then that of the whole process
            return


def peak_mb(device: torch.device) -> float | None:
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
