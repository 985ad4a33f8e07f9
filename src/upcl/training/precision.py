"""The choice between float32 and bfloat16 by a short measurement, once per processor."""

from __future__ import annotations

import platform
import time
from contextlib import suppress
from pathlib import Path
from typing import get_args

import torch

from upcl.core.files import parse_json, write_json
from upcl.core.seeding import preserve_rng_state
from upcl.data.io.paths import cache_root
from upcl.nets import Precision, make_backbone

BACKBONE, SIDE, BATCH = "pooled", 32, 8  # what is measured: a single convolution gains less than a network
REPEATS = 4
MIN_GAIN = 1.15  # bfloat16 must be faster by this factor, so that noise does not decide
HOPELESS = 5.0  # a first step that is slower by this factor ends the measurement
MIN_SIZE = 16  # pixels: smaller images leave little to compute, and conversions cost more than they save


def choose_precision(device: torch.device, size: int) -> Precision:
    """Choose what backbones compute in on this machine.

    On a CPU, a few training steps of a small network are measured in both types (well under a second); the decision is
    cached per processor and version of torch. On an NVIDIA GPU, bfloat16 is chosen if the hardware
    has it (not tested: no GPU in CI).

    Args:
        device: where to compute.
        size: height or width of the images, whichever is smaller.

    Example:
        >>> choose_precision(torch.device("cpu"), size=8)
        'float32'
    """
    if size < MIN_SIZE:
        return "float32"
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    if device.type != "cpu":
        return "float32"
    path = cache_root() / "precision.json"
    decisions = _read(path)
    key = processor()
    if key not in decisions:
        decisions[key] = faster_precision()
        with suppress(OSError):  # what cannot be cached is measured again next time
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, decisions)
    return decisions[key]


def stored_precision(folder: Path) -> Precision | None:
    """The precision that a run or an update was begun with, so that another processor continues with the same.

    Args:
        folder: its folder.

    Returns:
        The precision; None if the folder holds none.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> write_json(folder / "config.json", {"precision": "bfloat16"})
        >>> stored_precision(folder)
        'bfloat16'
    """
    try:
        stored = parse_json((folder / "config.json").read_text())["precision"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return stored if stored in get_args(Precision) else None


def processor() -> str:
    """What a measurement is valid for: the processor and the version of torch.

    Example:
        >>> processor().endswith(f"torch {torch.__version__}")
        True
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    found = {line.split(":")[0].strip(): line.split(":")[-1].strip() for line in lines[:40] if ":" in line}
    name = found.get("model name") or platform.processor() or platform.machine()
    numbers = [found.get(key, "") for key in ("vendor_id", "cpu family", "model", "stepping")]
    return ", ".join([name, *filter(None, numbers), f"torch {torch.__version__}"])


def faster_precision() -> Precision:
    """Measure training steps of a small network on the CPU in both types, and return the faster one.

    One thread measures: several would wait for each other on a busy machine, which is processor time, too.

    Example:
        >>> faster_precision() in ("float32", "bfloat16")
        True
    """
    with preserve_rng_state():
        net = make_backbone(BACKBONE, channels=3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        images = torch.randn(BATCH, 3, SIDE, SIDE).contiguous(memory_format=torch.channels_last)

    def seconds(bfloat16: bool) -> float:
        start = time.process_time()  # other processes do not count
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            total = net(images).float().sum()
        torch.autograd.grad(total, list(net.parameters()))
        return time.process_time() - start

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        seconds(False), seconds(True)
        full, half = min(seconds(False), seconds(False)), min(seconds(True), seconds(True))
        if half > HOPELESS * full:
            return "float32"
        for _ in range(REPEATS):  # in turn, so that both see the same machine
            full, half = min(full, seconds(False)), min(half, seconds(True))
    finally:
        torch.set_num_threads(threads)
    return "bfloat16" if half * MIN_GAIN < full else "float32"


def _read(path: Path) -> dict[str, Precision]:
    """The cached decisions; a damaged file counts as empty."""
    try:
        content = parse_json(path.read_text())
    except (OSError, ValueError):
        return {}
    known = get_args(Precision)
    return {key: value for key, value in content.items() if value in known} if isinstance(content, dict) else {}
