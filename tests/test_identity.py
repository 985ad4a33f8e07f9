"""Golden values: what identifies a run, the schemas of stored files, and the command line.

A change must be deliberate: `python -m tests.test_identity` rewrites the files in `tests/golden`.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import torch

import upcl
from upcl.cli import main
from upcl.data import Brightness, Flip, PadCrop, RandomResizedCrop
from upcl.model.intake import NewImages
from upcl.model.learner import Learner
from upcl.model.options import LearnOptions
from upcl.research.config import Request, resolve

GOLDEN = Path(__file__).parent / "golden"


def tiny_dataset() -> upcl.Dataset:
    """Images that are the same on every machine, with every augmentation."""
    images = torch.from_numpy((np.arange(8 * 3 * 8 * 8) % 251).astype(np.uint8).reshape(8, 3, 8, 8))
    samples = upcl.Samples(images, torch.arange(8) % 4)
    augmentations = (PadCrop(1), Flip(0.5), Brightness(0.25), RandomResizedCrop(8, scale=(0.3, 1.0)))
    transform = upcl.Transform((0.5,) * 3, (0.25,) * 3, augmentations)
    return upcl.Dataset(name="tiny", train=samples, test=samples, classes=tuple("abcd"), transform=transform, tasks=2)


REQUESTS: dict[str, dict[str, Any]] = {
    "defaults": {"method": "upcl", "data": "digits"},
    "ablation": {"method": "cos+fm", "data": "digits:train=30,test=10", "tasks": 2, "memory": "50KB", "seed": 3},
    "paper": {"method": "bic", "data": "digits", "protocol": "paper", "recipe": "paper", "epochs": 10},
    "scenario": {"method": "icarl", "data": "digits", "tasks": 5, "scenario": "blurry:10+online"},
    "options": {
        "method": "upcl",
        "data": "digits",
        "tasks": (4, 3, 3),
        "memory": "2/class",
        "exemplars": "random",
        "order": tuple("9876543210"),
        "select": "validation",
        "longtail": "exp:0.1:ordered",
        "options": {"tau": 0.1, "prototypes": "gaussian", "recipe.lr": 0.02, "later.epochs": 5},
    },
    "recipes": {"method": "fetril", "data": "digits", "recipe": "own", "precision": "bfloat16", "backbone": "medium"},
    "all augmentations": {"method": "icarl", "data": "tiny"},
}


def digests() -> dict[str, str]:
    found = {}
    for name, values in REQUESTS.items():
        request = Request.from_mapping(values)
        dataset = tiny_dataset() if request.data == "tiny" else request.load_dataset()
        found[name] = resolve(request, dataset, request.method_class).digest()
    return found


def shape_of(value: Any) -> Any:
    """Keys and types of a JSON value; a list stands for its first item."""
    if isinstance(value, Mapping):
        return {key: shape_of(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape_of(value[0])] if value else []
    return "null" if value is None else type(value).__name__


def record_shape() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        request = Request(method="upcl", data="synthetic:classes=4,train=6,test=2", tasks=2, memory="4", epochs=1)
        upcl.run(request, out=f"{folder}/run")
        record = shape_of(json.loads((Path(folder) / "run" / "record.json").read_text()))
    record["environment"] = dict.fromkeys(record["environment"], "any")
    return record


def manifest_shape() -> Any:
    images = torch.from_numpy((np.arange(24 * 8 * 8) % 251).astype(np.uint8).reshape(24, 1, 8, 8))
    names = [f"class {k % 2}" for k in range(24)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.upcl"
        Learner(path, device="cpu").learn_images(
            NewImages(images[:16], names[:16], images[16:], names[16:]), LearnOptions(epochs=1, backbone="small")
        )
        with zipfile.ZipFile(path) as file:
            manifest = shape_of(json.loads(file.read("manifest.json")))
    manifest["written_by"] = dict.fromkeys(manifest["written_by"], "any")
    return manifest


def command_line(command: click.Command = main) -> Any:
    """All commands, each with the types and defaults of its parameters."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        names = command.list_commands(context)
        return {name: command_line(command.get_command(context, name) or click.Command(None)) for name in names}
    parameters = {}
    for parameter in command.params:
        about = parameter.to_info_dict()
        kind = about["type"].get("choices") or about["type"]["param_type"]
        parameters[" ".join(about["opts"])] = {"type": kind, "default": repr(about["default"])} | {
            key: True for key in ("required", "multiple", "is_flag") if about.get(key)
        }
    return parameters


FILES: dict[str, Any] = {
    "digests": digests,
    "record": record_shape,
    "manifest": manifest_shape,
    "command-line": command_line,
}


@pytest.mark.parametrize("name", FILES)
def test_golden_file_is_unchanged(name: str) -> None:
    assert json.loads(json.dumps(FILES[name]())) == json.loads((GOLDEN / f"{name}.json").read_text())


def test_transform_identity_does_not_depend_on_class_names() -> None:
    content = json.dumps(tiny_dataset().transform.to_json())
    assert not any(name in content for name in ("PadCrop", "Flip(", "Brightness", "RandomResizedCrop", "Transform"))


if __name__ == "__main__":
    for name, make in FILES.items():
        (GOLDEN / f"{name}.json").write_text(json.dumps(make(), indent=1) + "\n")
