"""One training step of a method against the bare forward, backward and update of the same network on the same batches.

Both are measured in turn in one run, several times; the ratio of medians is what counts on a noisy machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from upcl import METHODS, load_dataset
from upcl.config import make_request, resolve
from upcl.core import Stage
from upcl.engine import fit
from upcl.nets import Network
from upcl.protocol import Protocol
from upcl.runs import make_setting
from upcl.seeding import seed_all

DATA = "synthetic:classes=20,size=32,train=26,test=1"
REPEATS = 7
CPU = torch.device("cpu")


def median(seconds: list[float]) -> float:
    return statistics.median(seconds)


def timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bare_epoch(stage: Stage, net: Network[Any], inputs: torch.Tensor) -> None:
    """Nothing but arithmetic: no data, no augmentation, the simplest loss."""
    optimizer = torch.optim.SGD(stage.params, lr=1e-3, momentum=0.9, weight_decay=5e-4)
    net.train()
    for part in inputs.split(stage.recipe.batch_size):
        optimizer.zero_grad()
        net.backbone(part).square().mean().backward()
        optimizer.step()


def compare(name: str, backbone: str) -> tuple[float, float]:
    """Median seconds of an epoch in the first task: ours and bare."""
    dataset = load_dataset(DATA)
    request = make_request({"method": name, "data": DATA, "tasks": 1, "backbone": backbone, "epochs": 1})
    config = resolve(request, dataset, METHODS[name])
    method = METHODS[name](**config.options)
    seed_all(0)
    method.start(make_setting(config, dataset, CPU))
    stage = next(iter(method.learn(Protocol(dataset, config.task_sizes, 1993).task(0))))
    inputs = dataset.transform.test(stage.data.inputs).contiguous(memory_format=torch.channels_last)
    ours, bare = [], []
    for _ in range(REPEATS):
        ours.append(timed(lambda: fit(method.net, stage, transform=dataset.transform, device=CPU, place=(0,))))
        bare.append(timed(lambda: bare_epoch(stage, method.net, inputs)))
    return median(ours[1:]), median(bare[1:])


def main() -> None:
    table = Table("method", "backbone", "epoch", "bare", "ratio", title=f"first task, {DATA}")
    for backbone in ("small", "resnet32"):
        for name in ("finetune", "upcl"):
            ours, bare = compare(name, backbone)
            table.add_row(name, backbone, f"{ours:.2f} s", f"{bare:.2f} s", f"{ours / bare:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
