"""Time and disk that a grid will take."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from upcl.core.memory import Budget
from upcl.core.seeding import preserve_rng_state, seed_all
from upcl.core.types import Stage
from upcl.data import Dataset
from upcl.methods.registry import find_method
from upcl.training.engine import fit

from .config import RunConfig
from .grid import GridRun, _dataset
from .protocol import Protocol
from .run import make_setting

PROBED_BATCHES = 2
PROBES = 3  # the quickest counts: the first warms up, others may be disturbed
TEACHER = 1.4  # of a step, with a teacher's forward


@dataclass(frozen=True)
class CostEstimate:
    """What a run would take: seconds on this machine with all its cores, bytes on disk."""

    seconds: float
    disk: int


def estimates(rows: Sequence[GridRun], data_root: Path | None, device: torch.device) -> Iterator[CostEstimate | None]:
    """For each run that is left, by a probe of a few steps for each method, data set and network."""
    paces: dict[tuple[str, str, str, str], tuple[float, int, Budget]] = {}
    for row in rows:
        if row.config is None or row.status != "waiting":
            yield None
            continue
        config, dataset = row.config, _dataset(row.job.request.data, data_root)
        key = (config.method, row.job.request.data, config.backbone, config.memory)
        if key not in paces:
            paces[key] = _probe(config, dataset, device)
        pace, size, budget = paces[key]
        protocol = Protocol(dataset, config.task_sizes, config.order_seed, config.validation, config.tail, config.order)
        image = torch.Size(dataset.image_shape).numel()
        counts, kept, seconds = list[int](), 0, 0.0
        for index in range(len(protocol)):
            task = protocol.task(index)
            with_teacher = TEACHER if index and find_method(config.method).uses_teacher else 1.0
            seconds += (len(task.train) + kept) * config.recipes.of(task).epochs * pace * with_teacher
            counts += task.train.counts(task.num_seen)[task.num_old :].tolist()
            kept = sum(budget.quotas(counts, image))
        yield CostEstimate(seconds, 2 * size + kept * image)


def _probe(config: RunConfig, dataset: Dataset, device: torch.device) -> tuple[float, int, Budget]:
    """Seconds an image in the first task, bytes of the network, and the exemplars that the method keeps."""
    with preserve_rng_state():
        method = find_method(config.method)(**config.options)
        seed_all(0)
        method.start(make_setting(config, dataset, device))
        protocol = Protocol(dataset, config.task_sizes, config.order_seed)
        stage = next(iter(method.learn(protocol.task(0))))
        batch = stage.recipe.batch_size_for(len(stage.data))
        recipe = dataclasses.replace(stage.recipe.scaled(1), batch_size=batch, min_steps=0)
        some = stage.data[: PROBED_BATCHES * batch]
        short = Stage(stage.name, some, stage.losses, stage.params, recipe, stage.augment, stage.frozen)
        taken = []
        for _ in range(PROBES):
            start = time.perf_counter()
            fit(method.net, short, transform=dataset.transform, device=device, seed_path=(0,))
            taken.append(time.perf_counter() - start)
        size = sum(value.numel() * value.element_size() for value in method.net.state_dict().values())
    return min(taken) / len(some), size, method.memory.budget
