"""Choose options by validation: CIFAR-100 at 16 pixels, ten tasks, 500 exemplars, ten epochs.

    python benchmarks/tune.py upcl+ prior_reach=0.2 recipe.erase=0.25     # CIFAR-100 in UPCL_DATA; eight minutes

A tenth of the *training* images takes the place of the test images, which are never read. The class order differs from
those of all reported results. Every configuration that was tried is a line of results/tuning.jsonl; one that is there
is not run again. The table in docs/upcl-plus.md is rewritten from these lines.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from upcl import Request, run
from upcl.core.types import Samples
from upcl.data import Dataset, Flip, PadCrop, load_dataset

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "tuning.jsonl", ROOT / "docs" / "upcl-plus.md"
BEGIN, END = "<!-- tuning: begin -->", "<!-- tuning: end -->"
SETTING: dict[str, Any] = {"tasks": 10, "memory": "500", "epochs": 10, "backbone": "pooled", "recipe": "quick"}
SEED, ORDER_SEED = 0, 7


def tuning_data() -> Dataset:
    """CIFAR-100 at half its size, without its test images."""
    data = load_dataset("cifar100:held_out=0.1")

    def halved(samples: Samples) -> Samples:
        return Samples(F.avg_pool2d(samples.inputs.float(), 2).round().to(torch.uint8), samples.labels)

    transform = dataclasses.replace(data.transform, augmentations=(PadCrop(2), Flip(0.5)))
    train, test = halved(data.train), halved(data.test)
    return dataclasses.replace(data, name=f"{data.name} at 16 px", train=train, test=test, transform=transform)


def main(method: str, options: dict[str, str]) -> None:
    """Run one configuration and append its line.

    Args:
        method: name of the method.
        options: its options and those of the recipe.
    """
    key = {"method": method, "options": options, "seed": SEED, "order_seed": ORDER_SEED}
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    if not any(key.items() <= line.items() for line in lines):
        torch.set_num_threads(1)
        record = run(
            Request(method=method, data=tuning_data(), seed=SEED, order_seed=ORDER_SEED, options=options, **SETTING)
        )
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
        RESULTS.parent.mkdir(exist_ok=True)
        with RESULTS.open("a") as file:
            file.write(json.dumps(line) + "\n")
    write_table()


def write_table() -> None:
    """Replace the table on the page: one row per configuration, the best of each method first."""
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    lines.sort(key=lambda line: (line["method"], -line["a_last"]["both"]))
    rows = ["| method | options | seed | precision | head | nme | both | A_avg head | A_avg nme |", "|" + "---|" * 9]
    for line in lines:
        options = ", ".join(f"`{key}={value}`" for key, value in line["options"].items()) or "-"
        figures = [*line["a_last"].values(), line["a_avg"]["head"], line["a_avg"]["nme"]]
        setting = f"{line['seed']} | {line.get('precision', 'float32')}"
        rows.append(f"| {line['method']} | {options} | {setting} | {' | '.join(f'{value:.1f}' for value in figures)} |")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text("\n".join([before + BEGIN, *rows, END + rest.partition(END)[2]]))


if __name__ == "__main__":
    main(sys.argv[1], dict(argument.split("=", 1) for argument in sys.argv[2:]))
