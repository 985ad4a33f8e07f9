"""Randomness without state to save.

Every epoch, and every stretch of `learn` between two stages, starts from a seed of its own that is derived from the
run's seed and its seed_path in the run. So a resumed run draws the same numbers as one that was never stopped, whatever
generator a method uses (torch on any device, numpy's global one, Python's).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

SeedPath = tuple[int | str, ...]


def derive_seed(seed_path: SeedPath) -> int:
    """A 63-bit seed for a seed_path of a run, such as `(seed, "task", 3, "stage", 0, "epoch", 7)`."""
    digest = hashlib.sha256("/".join(map(str, seed_path)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def seed_all(*seed_path: int | str) -> None:
    """Seed every global generator for this seed_path of the run."""
    seed = derive_seed(seed_path)
    torch.manual_seed(seed)  # every device
    np.random.seed(seed % 2**32)
    random.seed(seed)


@contextmanager
def preserve_rng_state() -> Iterator[None]:
    """Give the caller's random state back afterwards."""
    numpy_state, python_state = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)
