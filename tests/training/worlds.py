"""Runs of several processes for tests: a launcher, and what each process does."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist

from upcl.research.config import Request
from upcl.research.run import run

SHARDS = 4
STREAM = "synthetic:classes=4,train=9,test=5"
ROOT = Path(__file__).parents[2]


def request(method: str, data: str = STREAM, **changes: Any) -> Request:
    """Two tasks with odd batches: 18 images of 10 per batch, then 23, the last batch smaller than two per shard."""
    values: dict[str, Any] = {"tasks": 2, "memory": "5", "epochs": 1, "backbone": "small", "shards": SHARDS}
    return Request(method=method, data=data, options={"recipe.batch_size": 10}, **{**values, **changes})


def environment(rank: int, size: int, port: int) -> dict[str, str]:
    """The variables that torchrun sets."""
    place = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "MASTER_PORT": port}
    values = {name: str(value) for name, value in place.items()} | {"MASTER_ADDR": "127.0.0.1"}
    return {**os.environ, **values, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def start(
    size: int, command: Sequence[str], only: int | None = None, port: int | None = None, **variables: str
) -> list[subprocess.Popen[str]]:
    """Start the processes of one run, or only one of them."""
    port = port or free_port()
    return [
        subprocess.Popen(
            [sys.executable, *command],
            env={**environment(rank, size, port), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in (range(size) if only is None else [only])
    ]


def results(size: int, folder: Path, methods: Sequence[str], photos: str) -> dict[str, Any]:
    """Reproducible parts of the records of methods, and of runs in other settings, from so many processes."""
    processes = start(size, ["-m", "tests.training.worlds", str(folder), photos, *methods])
    outputs = [process.communicate(timeout=850)[0] for process in processes]
    assert all(process.returncode == 0 for process in processes), "\n".join(outputs)
    found = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(size)]
    assert all(other == found[0] for other in found), "every process returns the same records"
    return dict(found[0])


def requests(methods: Sequence[str], photos: str) -> dict[str, Request]:
    return {name: request(name) for name in methods} | {
        "upcl, validation": request("upcl", select="validation", validation=0.2),
        "icarl, bfloat16": request("icarl", precision="bfloat16"),
        "icarl, photos": request("icarl", photos, recipe="quick", memory="4"),
    }


def main(folder: Path, photos: str, methods: Sequence[str]) -> None:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if size > 1:  # once for all runs
        dist.init_process_group("gloo", rank=rank, world_size=size)
    found = {}
    for name, wanted in requests(methods, photos).items():
        out = folder / f"runs-{size}" / name if rank == 0 else None
        found[name] = run(wanted, out=out, device="cpu").reproducible_part()
    (folder / f"{rank}.json").write_text(json.dumps(found))
    if size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
