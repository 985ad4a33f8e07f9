"""Mutated and crafted files for every reader: each is refused with a sentence, or read."""

from __future__ import annotations

import io
import json
import pickle
import random
import shutil
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .materials import GRID, STREAM, make_features_model, make_model, make_run, write_photos
from .trial import Result, Trial, command, run_forked

HUGE = 10**30
LEAVES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**31, 2**63, HUGE, 1e308, -0.5, float("nan"), float("inf")),
    *("", "x", "\0", "\x1b[31m", "../../etc/passwd", "é" * 300, "=1+1", [], {}, [[]], {"": None}, [0] * 1000),
)


@dataclass(frozen=True)
class Reader:
    """A file and the command that reads it.

    Args:
        prepare: puts everything that the command needs into a folder.
        file: the file to damage, relative to the folder; may be a pattern.
        words: of the command.
        craft: damages the meaning of a file without damaging its form; None if it has none.
    """

    prepare: Callable[[Path], object]
    file: str
    words: tuple[str, ...]
    craft: Callable[[random.Random, bytes], bytes] | None = None


def mutate(rng: random.Random, content: bytes) -> bytes:
    """Damage the bytes of a file."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if not data:
            break
        at, length = rng.randrange(len(data)), rng.choice((1, 4, 64, 4096))
        kind = rng.randrange(6)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            del data[at : at + length]
        elif kind == 3:
            data[at:at] = rng.randbytes(length)
        elif kind == 4:
            data[at : at + length] = rng.choice((b"\0", b"\xff", b"[", b"\n")) * length
        else:
            data[at:at] = data[: min(length, at)]
    return bytes(data)


def alter(rng: random.Random, value: Any) -> Any:
    """A JSON value in which one part is another value, missing, doubled or nested deeply."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        if rng.random() < 0.1:
            return {name: part for name, part in value.items() if name != key}
        return {**value, key: alter(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        return [*value[:at], alter(rng, value[at]), *value[at + 1 :]]
    if rng.random() < 0.1:
        return [value] * rng.choice((2, 1000))
    return rng.choice(LEAVES)


def alter_json(rng: random.Random, content: bytes) -> bytes:
    """A JSON document, or lines of JSON, in which a value is replaced or nested 100,000 deep."""
    if rng.random() < 0.1:
        return b"[" * 100_000 + b"]" * 100_000
    lines = content.splitlines() if content[:2] != b"{\n" else [content]
    at = rng.randrange(len(lines))
    lines[at] = json.dumps(alter(rng, json.loads(lines[at]))).encode()
    return b"\n".join(lines) + b"\n"


def alter_archive(rng: random.Random, content: bytes) -> bytes:
    """A zip archive with right checksums in which an entry is damaged, missing, doubled or enormous."""
    with zipfile.ZipFile(io.BytesIO(content)) as old:
        entries = {name: old.read(name) for name in old.namelist()}
    name = rng.choice([*entries, *(["manifest.json"] * 8 if "manifest.json" in entries else [])])
    kind = rng.randrange(5)
    if name.endswith(".json") and kind:
        entries[name] = alter_json(rng, entries[name])
    elif kind == 1:
        del entries[name]
    elif kind == 2:
        entries[name] = bytes(rng.choice((0, 1, 10_000_000)))
    elif kind == 3:
        entries[name] = entries[rng.choice(list(entries))]
    else:
        entries[name] = mutate(rng, entries[name])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as new:
        for name, body in entries.items():
            new.writestr(name, body)
    return buffer.getvalue()


def craft_yaml(rng: random.Random, content: bytes) -> bytes:
    """A YAML file that is unusual, enormous when expanded, or of other types."""
    bombs = [
        "a: &a [x, x]\n"
        + "".join(f"{c}: &{c} [*{p}, *{p}, *{p}]\n" for p, c in zip("abcdefghij", "bcdefghijk", strict=True)),
        "[" * 20_000,
        "same: 2001-99-99",
        f"vary: {{seed: [{'9' * 5000}]}}",
        "vary: {method: [finetune], options: 3}",
        "same: {options: {recipe.lr: .nan}}\nvary: {method: [finetune]}",
        "? [a]\n: b",
        "!!python/object/apply:os.system ['true']",
        "- 1\n- 2",
        "\ufeffsame: null",
    ]
    if rng.random() < 0.5:
        return rng.choice(bombs).encode()
    lines = content.decode().splitlines()
    lines[rng.randrange(len(lines))] = f"{rng.choice(('same', 'vary', 'title', 'x'))}: {json.dumps(rng.choice(LEAVES))}"
    return "\n".join(lines).encode(errors="replace")


def craft_npz(rng: random.Random, _: bytes) -> bytes:
    """Arrays of unusual types, shapes and labels."""
    images, labels = np.zeros((4, 8, 8), np.uint8), np.array([0, 1, 0, 1])
    arrays: dict[str, Any] = {"train_x": images, "train_y": labels, "test_x": images, "test_y": labels}
    key = rng.choice(list(arrays))
    arrays[key] = rng.choice(
        [
            *(labels + 2**40, -labels, labels.astype(float), labels[:0], labels[:1], images[:0], images.astype(float)),
            *(np.zeros((4, 8, 9), np.uint8), np.zeros((4, 8, 8, 3), np.uint8), np.zeros((4, 1, 1), np.uint8)),
            *(np.array(3), np.array(["a"] * 4), np.zeros((4, 0, 0), np.uint8), np.zeros((20_000_000,), np.uint8)),
            np.zeros((4, 20_000, 1000), np.uint8),
        ]
    )
    if rng.random() < 0.3:
        arrays["classes"] = rng.choice([np.array([1, 2]), np.array(["a"] * 2), np.array(["a"]), np.zeros((2, 2))])
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


DEEP_PICKLE = b"\x80\x02})" + b"\x85" * 1_000_000 + b"K\x01s."  # a key whose hash takes a million levels of recursion


def craft_pickle(rng: random.Random, content: bytes) -> bytes:
    """A CIFAR file with other content, or a pickle made to take memory or to run code."""
    bombs = [
        b"\x80\x02r\xff\xff\xff\x1f.",
        b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00trueq\x00\x85R.",
        b"]" * 50_000,
        b"N.",
        DEEP_PICKLE,
    ]
    if rng.random() < 0.5:
        return rng.choice(bombs)
    batch = pickle.loads(content)
    key = rng.choice(list(batch))
    batch[key] = rng.choice([*LEAVES, [2**40] * 8, np.zeros((1, 1)), b"\xff" * 9])
    return pickle.dumps(batch, protocol=2)


def craft_weights(rng: random.Random, _: bytes) -> bytes:
    """A file of weights with tensors of other kinds."""
    loop: dict[str, Any] = {}
    loop["state_dict"] = loop
    warnings.filterwarnings("ignore", "torch.quantize_per_tensor")
    values: list[Any] = [
        *(loop, [], 3, {}, {"x": 1}, {1: torch.ones(1)}, {"conv1.weight": torch.ones(2, 2).to_sparse()}),
        *(
            {"conv1.weight": torch.empty(64, 3, 7, 7, device="meta")},
            {"conv1.weight": torch.full((64, 3, 7, 7), float("nan"))},
        ),
        {"conv1.weight": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)},
        {"conv1.weight": torch.ones(1).expand(2**33)},
    ]
    buffer = io.BytesIO()
    if rng.random() < 0.1:
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("own/data.pkl", DEEP_PICKLE)
        return rng.choice((buffer.getvalue(), DEEP_PICKLE))
    torch.save(rng.choice(values), buffer)
    return buffer.getvalue()


def _model(folder: Path) -> None:
    shutil.copy(make_model("upcl"), folder / "m.upcl")
    write_photos(folder)


def _features_model(folder: Path) -> None:
    shutil.copy(make_features_model(), folder / "m.upcl")
    write_photos(folder)


def _run(folder: Path) -> None:
    shutil.copytree(make_run(), folder / "run")


def _npz(folder: Path) -> None:
    (folder / "own.npz").write_bytes(b"x")


def _cifar(folder: Path) -> None:
    root = folder / "cifar-10-batches-py"
    root.mkdir()
    rng = np.random.default_rng(0)
    batch = {b"data": rng.integers(0, 256, (10, 3072), dtype=np.uint8), b"labels": list(range(10))}
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        (root / name).write_bytes(pickle.dumps(batch, protocol=2))
    names = [f"class {number}".encode() for number in range(10)]
    (root / "batches.meta").write_bytes(pickle.dumps({b"label_names": names}, protocol=2))


def _grid(folder: Path) -> None:
    (folder / "grid.yaml").write_text(GRID)


def _weights(folder: Path) -> None:
    write_photos(folder)
    (folder / "own.pth").write_bytes(b"x")


SHORT = ("--tasks", "2", "--epochs", "1", "--memory", "4")
READERS = {
    "file-model": [
        Reader(_model, "m.upcl", ("info", "m.upcl"), alter_archive),
        Reader(_model, "m.upcl", ("predict", "--model", "m.upcl", "first"), alter_archive),
        Reader(_features_model, "m.upcl", ("predict", "--model", "m.upcl", "first"), alter_archive),
        Reader(_features_model, "m.upcl", ("forget", "m.upcl", "--class", "ant"), alter_archive),
        Reader(_model, "m.upcl", ("forget", "m.upcl", "--class", "kind 1"), alter_archive),
    ],
    "file-run": [
        Reader(_run, "run/record.json", ("report", "run", "-o", "report.html"), alter_json),
        Reader(_run, "run/events.jsonl", ("report", "run", "-o", "report.html"), alter_json),
        Reader(_run, "run/record.json", ("report", "run", "--format", "md"), alter_json),
        Reader(_run, "run/config.json", ("train", "icarl", *STREAM, "--out", "run", "--resume"), alter_json),
        Reader(_run, "run/record.json", ("train", "icarl", *STREAM, "--out", "run", "--resume"), alter_json),
        Reader(_run, "run/checkpoints/*", ("train", "icarl", *STREAM, "--out", "run", "--resume")),
        Reader(_run, "run/events.jsonl", ("train", "icarl", *STREAM, "--out", "run", "--resume"), alter_json),
    ],
    "file-data": [
        Reader(_npz, "own.npz", ("train", "finetune", "--data", "npz:own.npz", *SHORT), craft_npz),
        Reader(
            _cifar,
            "cifar-10-batches-py/*",
            ("train", "finetune", "--data", "cifar10", "--data-root", ".", "--backbone", "small", *SHORT),
            craft_pickle,
        ),
        Reader(_grid, "grid.yaml", ("grid", "grid.yaml", "--out", "runs", "--dry-run"), craft_yaml),
        Reader(_grid, "grid.yaml", ("train", "--config", "grid.yaml", *SHORT), craft_yaml),
        Reader(_grid, "grid.yaml", ("train", "finetune", "--order", "grid.yaml", *SHORT), craft_yaml),
        Reader(_weights, "own.pth", ("learn", "first", "--model", "m.upcl", "--backbone", "own.pth"), craft_weights),
    ],
}


def _trial(readers: list[Reader]) -> Trial:
    def trial(rng: random.Random, folder: Path) -> Result:
        reader = rng.choice(readers)
        reader.prepare(folder)
        target = rng.choice(sorted(folder.glob(reader.file)))
        content = target.read_bytes()
        crafted = reader.craft is not None and (rng.random() < 0.6 or len(content) < 2)
        target.write_bytes(reader.craft(rng, content) if crafted and reader.craft else mutate(rng, content))
        return run_forked(command(*reader.words), folder).verdict()

    return trial


def trials() -> dict[str, Trial]:
    """The kinds of this module."""
    return {kind: _trial(readers) for kind, readers in READERS.items()}
