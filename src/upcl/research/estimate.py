"""Time and disk space that the runs of a grid will take."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from upcl.core.budget import Budget
from upcl.core.seeding import preserve_rng_state
from upcl.data import Dataset
from upcl.methods.registry import MethodClass, build_method
from upcl.training.engine import fit

from .config import RunConfig
from .grid import GridRun, cached_dataset
from .setting import make_protocol, make_setting

PROBED_BATCHES = 2
PROBES = 3  # the fastest counts: the first warms up, others may be disturbed
TEACHER = 1.4  # cost of a step with a teacher's forward pass, relative to one without


@dataclass(frozen=True)
class CostEstimate:
    """What a run will take.

    Args:
        seconds: time on this machine, with all its cores.
        disk: bytes on disk.

    Example:
        >>> estimate = CostEstimate(seconds=90.0, disk=2_500_000)
        >>> f"{estimate.seconds / 60:.1f} min, {estimate.disk / 1e6:.1f} MB"
        '1.5 min, 2.5 MB'
    """

    seconds: float
    disk: int


def estimates(runs: Sequence[GridRun], data_root: Path | None, device: torch.device) -> Iterator[CostEstimate | None]:
    """Estimate the cost of each run that is left, by timing a few steps per method, data set and network.

    Args:
        runs: the runs of a grid.
        data_root: folder that holds data sets.
        device: where to train.

    Yields:
        An estimate per run; None for a run that is not waiting.

    Example:
        >>> from upcl.research.grid import make_grid, prepare
        >>> grid = make_grid({"same": {"method": "finetune", "data": "synthetic"}}, "example")
        >>> runs = prepare(grid, Path("runs"), None)
        >>> next(estimates(runs, None, torch.device("cpu"))).disk > 0
        True
    """
    probes: dict[tuple[str, str, str, str], _Probe] = {}
    for run in runs:
        if run.config is None or run.status != "waiting":
            yield None
            continue
        config, data = run.config, str(run.job.request.data)
        dataset = cached_dataset(data, data_root)
        key = (config.method, data, config.backbone, config.memory)
        if key not in probes:
            probes[key] = _probe(config, dataset, run.job.request.method_class, device)
        yield _estimate(config, dataset, run.job.request.method_class, probes[key])


@dataclass(frozen=True)
class _Probe:
    """Seconds per image in the first task, bytes of the network, and the budget that the method uses."""

    pace: float
    num_bytes: int
    budget: Budget


def _estimate(config: RunConfig, dataset: Dataset, method: MethodClass, probe: _Probe) -> CostEstimate:
    protocol = make_protocol(config, dataset)
    image_bytes = torch.Size(dataset.image_shape).numel()
    counts, kept, seconds = torch.zeros(len(dataset.classes), dtype=torch.int64), 0, 0.0
    for index in range(len(protocol)):
        task = protocol.task(index)
        factor = TEACHER if index and method.uses_teacher else 1.0
        images = task.train + task.extra
        seconds += (len(images) + kept) * config.recipes.of(task).epochs * probe.pace * factor
        counts += images.counts(len(counts))
        kept = sum(probe.budget.quotas(counts[: task.num_seen].tolist(), image_bytes, probe.num_bytes))
    return CostEstimate(seconds, 2 * probe.num_bytes + kept * image_bytes)


def _probe(config: RunConfig, dataset: Dataset, method_class: MethodClass, device: torch.device) -> _Probe:
    with preserve_rng_state():
        method = build_method(method_class, config.options, make_setting(config, dataset, device), seed=0)
        stage = next(iter(method.learn(make_protocol(config, dataset).task(0))))
        batch = stage.recipe.batch_size_for(len(stage.data))
        recipe = dataclasses.replace(stage.recipe.scaled(1), batch_size=batch, min_steps=0)
        short = dataclasses.replace(stage, data=stage.data[: PROBED_BATCHES * batch], recipe=recipe)
        timings = []
        for _ in range(PROBES):
            start = time.perf_counter()
            fit(method.net, short, transform=dataset.transform, device=device, seed_path=(0,))
            timings.append(time.perf_counter() - start)
        num_bytes = method.net.num_bytes
    return _Probe(min(timings) / len(short.data), num_bytes, method.memory.budget)
