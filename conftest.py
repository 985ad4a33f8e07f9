"""Fixtures for tests and doctests alike."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("no-deadline", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("no-deadline")


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> None:
    """Processes that tests start can be interrupted, also if the test run itself is a background job of a shell."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def single_thread() -> None:
    """One thread, as in the processes that tests start: weights are bit-identical for equal numbers of threads only."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def isolated_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache in a temporary folder instead of the user's, in which float32 is the faster precision everywhere."""
    from upcl.core.files import write_json
    from upcl.training.precision import processor

    cache = tmp_path_factory.mktemp("cache")
    write_json(cache / "precision.json", {processor(): "float32"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPCL_CACHE", str(cache))
        yield
