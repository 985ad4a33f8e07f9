from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.research.altered import alter
from tests.runs import STREAM, quick_run
from upcl.cli.options import build_request
from upcl.cli.train import train
from upcl.research.config import Request, resolve
from upcl.research.record import Record
from upcl.research.report.rerun import train_command


def parse_command(words: list[str]) -> Request:
    """What `upcl train` would run."""
    options = dict(train.make_context("train", words).params)
    fields = set(Request.__dataclass_fields__)
    given = {name: value for name, value in options.items() if name in fields - {"method", "options"}}
    return build_request(options["method"], options["settings"], options["config"], given)


@pytest.mark.parametrize(
    "request_fields",
    [
        {"method": "upcl"},
        {"method": "icarl", "exemplars": "random", "options": {"recipe.lr": 0.02, "first.epochs": 3}},
        {"method": "upcl", "protocol": "paper", "options": {"margin": "none", "lambda_1": "2^t", "recipe.epochs": 1}},
        {"method": "up+fm", "tasks": (4, 2), "order_seed": 5},
        {"method": "finetune", "select": "validation", "validation": 0.2, "longtail": "exp:0.5"},
        {"method": "icarl", "scenario": "repeat:50+online+half", "recipe": "own", "epochs": 1},
        {"method": "wa", "order": ("5", "4", "3", "2", "1", "0"), "recipe": "paper"},
    ],
    ids=lambda fields: fields["method"],
)
def test_command_repeats_the_run(request_fields: dict[str, Any]) -> None:
    record = quick_run(**{"epochs": 1, "tasks": 2, **request_fields})
    words = shlex.split(train_command(record))
    assert words[:2] == ["upcl", "train"]
    request = parse_command(words[2:])
    assert resolve(request, request.load_dataset(), request.method_class).digest() == record.config_digest


def test_external_methods_are_named_and_not_executed(records: list[Record], tmp_path: Path) -> None:
    (tmp_path / "boom.py").write_text("raise SystemError")
    record = alter(records[2], config={"method": f"{tmp_path}/boom.py:X", "data": STREAM})
    command = train_command(record)
    assert "boom.py:X" in command and "first.epochs=2" in command and "tau=0.07" in command


def test_data_sets_made_in_python_have_no_command(records: list[Record]) -> None:
    assert train_command(records[2]) == "(no command: the data set 'evil & co' was created in Python)"
