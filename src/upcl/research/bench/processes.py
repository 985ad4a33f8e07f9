"""The cost of several processes: a step that two processes share, against one process with two threads."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
import torch.nn.functional as F

from upcl.core.timing import Measurement, Workload, overhead, single_thread, time_in_turns
from upcl.nets import Execution, LinearHead, Network, make_backbone
from upcl.training.sharding import Sharding
from upcl.training.world import World

SIZE = 2  # processes
BATCH, NUM_CLASSES, BACKBONE = 128, 100, "medium"


def measure_processes(repeats: int) -> Iterator[Measurement]:
    """Measure a step of two processes against one with as many threads, and what shards cost in one process.

    Args:
        repeats: number of rounds.

    Example:
        >>> next(measure_processes(repeats=1)).group  # doctest: +SKIP
        'processes'
    """
    with _threads(SIZE), _processes() as shared:
        whole = make_step(None)
        times = time_in_turns({f"{SIZE} processes": shared, f"{SIZE} threads": whole}, 2 * repeats)
    yield overhead("processes", f"a step of {BATCH} images, {BACKBONE}, {SIZE} processes of one thread", times)
    with single_thread():
        steps = {f"{SIZE} shards": make_step(Sharding(SIZE)), "no shards": make_step(None)}
        times = time_in_turns(steps, 2 * repeats)
    yield overhead("processes", "the same step in one process and thread, in shards", times)


def make_step(sharding: Sharding | None) -> Workload:
    """One step of training on random images.

    Args:
        sharding: divides the batch; None leaves it whole.

    Example:
        >>> make_step(Sharding(2))()  # doctest: +SKIP
    """
    torch.manual_seed(0)
    backbone = make_backbone(BACKBONE)
    net = Network(backbone, LinearHead(backbone.dim))
    net.grow(NUM_CLASSES)
    net.set_execution(Execution(sharding=sharding))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.rand(BATCH, 3, 32, 32), torch.arange(BATCH) % NUM_CLASSES

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(net(images), labels).backward()
        optimizer.step()

    return step


@contextmanager
def _threads(num: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(num)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _processes() -> Iterator[Workload]:
    """Processes that make one step together whenever they are asked to."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = f"from {__name__} import serve_steps; serve_steps"
    processes: list[subprocess.Popen[str]] = [
        subprocess.Popen([sys.executable, "-c", f"{command}({rank})"], env=environment, **pipes)  # type: ignore[call-overload]
        for rank in range(SIZE)
    ]

    def step() -> None:
        for process in processes:
            assert process.stdin
            process.stdin.write("step\n")
            process.stdin.flush()
        for process in processes:
            assert process.stdout
            if process.stdout.readline() != "done\n":
                raise RuntimeError("a process of the benchmark ended")

    try:
        yield step
    finally:
        for process in processes:
            process.communicate()


def serve_steps(rank: int) -> None:
    """Make a step for every line on standard input.

    Args:
        rank: number of this process.

    Example:
        >>> serve_steps(0)  # in a process of the benchmark  # doctest: +SKIP
    """
    dist.init_process_group("gloo", rank=rank, world_size=SIZE)
    step = make_step(Sharding(SIZE, World(rank, SIZE)))
    for _ in sys.stdin:
        step()
        print("done", flush=True)
    dist.destroy_process_group()
