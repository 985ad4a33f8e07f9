"""Fixtures for tests and doctests alike."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import ModuleType

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


@pytest.fixture(scope="session")
def timm() -> ModuleType:
    """The package timm. The compiled operators of its dependency torchvision do not load next to the CPU build of
    torch: declared by name, they can be imported, and timm's networks do not call them."""
    if importlib.util.find_spec("timm") is None:
        pytest.skip("pip install 'upcl[timm]'")
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    import timm

    module: ModuleType = timm
    return module
