"""Choose options by validation, on one of four streams: the data lie in UPCL_DATA.

    python benchmarks/tune.py cifar100 upcl+ prior_reach=0.2 recipe.ema=0.99   # at 16 pixels, ten epochs: 8 minutes
    python benchmarks/tune.py omniglot upcl+ weighting=missing                 # half of the characters: 2 minutes
    python benchmarks/tune.py longtail upcl+ weighting=missing seed=1          # 500 to 5 images per class: 5 minutes
    python benchmarks/tune.py tinyimagenet upcl+ weighting=missing             # its slice at 32 pixels: 5 minutes

Some of the *training* images take the place of the test images, which are never read. The class order differs from
those of all reported results. Every configuration that was tried is a line of results/tuning.jsonl; one that is there
is not run again. The tables in docs/upcl-plus.md are rewritten from these lines.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from upcl import Request, run
from upcl.core.types import Samples
from upcl.data import Dataset, Flip, PadCrop, load_dataset
from upcl.data.subset import SubsetOptions

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "tuning.jsonl", ROOT / "docs" / "upcl-plus.md"
ORDER_SEED = 7


def halved_cifar100() -> Dataset:
    """CIFAR-100 at half its size, without its test images."""
    data = load_dataset("cifar100:held_out=0.1")

    def halved(samples: Samples) -> Samples:
        return Samples(F.avg_pool2d(samples.inputs.float(), 2).round().to(torch.uint8), samples.labels)

    transform = dataclasses.replace(data.transform, augmentations=(PadCrop(2), Flip(0.5)))
    train, test = halved(data.train), halved(data.test)
    return dataclasses.replace(data, name=f"{data.name} at 16 px", train=train, test=test, transform=transform)


def omniglot() -> Dataset:
    """Half of the characters of Omniglot-small: 12 drawings of each to learn from, 3 to measure with."""
    data = load_dataset(f"npz:{Path(os.environ['UPCL_DATA']) / 'omniglot-small.npz'}")
    return SubsetOptions(num_classes=121, held_out=0.2).apply(data)


@dataclass(frozen=True)
class Stream:
    """Where options are tried.

    Args:
        data: what loads the training images.
        setting: how a method is run on them.
    """

    data: Callable[[], Dataset]
    setting: dict[str, Any]


STREAMS = {
    "cifar100": Stream(halved_cifar100, {"tasks": 10, "memory": "500", "epochs": 10}),
    "omniglot": Stream(omniglot, {"tasks": 11, "memory": "242", "epochs": 30}),
    "longtail": Stream(
        lambda: load_dataset("cifar100:held_out=0.1"),
        {"tasks": 10, "memory": "500", "longtail": "exp:0.01"},
    ),
    "tinyimagenet": Stream(lambda: load_dataset("tinyimagenet:size=32,held_out=0.2"), {"tasks": 10, "memory": "500"}),
}


def main(stream: str, method: str, options: dict[str, str], seed: int) -> None:
    """Run one configuration and append its line.

    Args:
        stream: a key of `STREAMS`.
        method: name of the method.
        options: its options and those of the recipe.
        seed: seed of initialisation and sampling.
    """
    key = {"stream": stream, "method": method, "options": options, "seed": seed, "order_seed": ORDER_SEED}
    if not any(key.items() <= line.items() for line in read_lines()):
        torch.set_num_threads(1)
        data, setting = STREAMS[stream].data(), STREAMS[stream].setting
        wanted: dict[str, Any] = {"method": method, "options": options, "seed": seed, "order_seed": ORDER_SEED}
        record = run(Request(data=data, backbone="pooled", recipe="quick", **wanted, **setting))
        figures = {
            name: {reading: round(value, 2) for reading, value in figure.model_dump().items() if value is not None}
            for name, figure in (("a_last", record.a_last), ("a_avg", record.a_avg))
        }
        line = {
            **key,
            "precision": record.config.precision,
            **figures,
            "old": round(record.old.head[-1] or 0, 2),
            "new": round(record.new.head[-1], 2),
        }
        with RESULTS.open("a") as file:
            file.write(json.dumps(line) + "\n")
    write_table(stream)


def read_lines() -> list[dict[str, Any]]:
    """All configurations that were tried."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def write_table(stream: str) -> None:
    """Replace the table of a stream on the page: one row per configuration, the best of each method first.

    Args:
        stream: a key of `STREAMS`.
    """
    lines = [line for line in read_lines() if line["stream"] == stream]
    lines.sort(key=lambda line: (line["method"], -line["a_last"]["both"]))
    rows = ["| method | options | seed | precision | head | nme | both | A_avg head | A_avg nme |", "|" + "---|" * 9]
    for line in lines:
        options = ", ".join(f"`{key}={value}`" for key, value in line["options"].items()) or "-"
        figures = [*line["a_last"].values(), line["a_avg"]["head"], line["a_avg"]["nme"]]
        setting = f"{line['seed']} | {line.get('precision', 'float32')}"
        rows.append(f"| {line['method']} | {options} | {setting} | {' | '.join(f'{value:.1f}' for value in figures)} |")
    begin, end = f"<!-- tuning on {stream}: begin -->", f"<!-- tuning on {stream}: end -->"
    before, _, rest = PAGE.read_text().partition(begin)
    PAGE.write_text("\n".join([before + begin, *rows, end + rest.partition(end)[2]]))


if __name__ == "__main__":
    given = dict(argument.split("=", 1) for argument in sys.argv[3:])
    main(sys.argv[1], sys.argv[2], given, int(given.pop("seed", 0)))
