"""Random numbers without a state to save.

Every epoch, and every stretch of `learn` between two stages, starts from its own seed, which is derived from the run's
seed and the position in the run. A resumed run therefore draws the same numbers as an uninterrupted one, whichever
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
"""A position in a run, beginning with the run's seed: `(seed, "task", 3, "stage", 0, "epoch", 7)`."""


def derive_seed(seed_path: SeedPath) -> int:
    """Derive a 63-bit seed from a position in a run.

    Args:
        seed_path: the run's seed and the position.

    Example:
        >>> derive_seed((0, "task", 1)) == derive_seed((0, "task", 1))
        True
        >>> derive_seed((0, "task", 1)) == derive_seed((0, "task", 2))
        False
    """
    digest = hashlib.sha256("/".join(map(str, seed_path)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def seed_all(*seed_path: int | str) -> None:
    """Seed the global generators of torch (on all devices), numpy and Python.

    Args:
        seed_path: the run's seed and the position in the run.

    Example:
        >>> with preserve_rng_state():
        ...     seed_all(0, "start")
        ...     first = torch.rand(3)
        ...     seed_all(0, "start")
        ...     bool((torch.rand(3) == first).all())
        True
    """
    seed = derive_seed(seed_path)
    torch.manual_seed(seed)  # every device
    np.random.seed(seed % 2**32)
    random.seed(seed)


@contextmanager
def preserve_rng_state() -> Iterator[None]:
    """Restore the caller's random state at the end of the block.

    Example:
        >>> random.seed(0)
        >>> with preserve_rng_state():
        ...     first = random.random()
        >>> random.random() == first
        True
    """
    numpy_state, python_state = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)
