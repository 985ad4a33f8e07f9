"""Freed memory is kept or given back with glibc, and nothing breaks elsewhere."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from upcl.core import allocation

FAULTS = """
import resource, sys
import torch
from upcl.core.allocation import give_back_memory, keep_freed_memory
if "keep" in sys.argv:
    keep_freed_memory()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(10_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
first = faults()
give_back_memory()
print(first, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_memory_is_kept_until_it_is_given_back() -> None:
    def measure(*words: str) -> list[int]:
        command = [sys.executable, "-c", FAULTS, *words]
        return [int(num) for num in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()]

    (returned, _), (kept, after) = measure(), measure("keep")
    assert kept < returned / 4, "pages of kept memory need not be cleared again"
    assert after > kept, "memory that was given back has to be asked for again"


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    assert allocation._find("mallopt") is None
    for name in ("_MALLOPT", "_TRIM"):
        monkeypatch.setattr(allocation, name, None)
    allocation.keep_freed_memory()
    allocation.give_back_memory()
