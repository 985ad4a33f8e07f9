"""Every command and option with bad values: each is answered with a sentence."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import click

from upcl.cli import main

from .materials import GRID, make_model, make_run, write_photos
from .trial import Result, Trial, command, run_forked

STREAM = ["--data", "synthetic:classes=2,train=4,test=2", "--tasks", "2", "--epochs", "1"]
BASES: dict[str, list[str]] = {  # what makes a command short, if it is accepted
    "learn": ["first", "--model", "new.upcl", "--backbone", "small", "--epochs", "1", "--method", "ridge"],
    "predict": ["--model", "m.upcl", "first"],
    "info": ["m.upcl"],
    "history": ["m.upcl"],
    "rollback": ["m.upcl", "--to", "0"],
    "forget": ["m.upcl", "--class", "kind 1"],
    "rename": ["m.upcl", "kind 1", "new"],
    "merge": ["m.upcl", "kind 1", "kind 2"],
    "correct": ["m.upcl", "first/kind 1/0.png", "--class", "kind 2"],
    "label": ["second", "--model", "m.upcl"],
    "explain": ["first/kind 1/0.png", "--model", "m.upcl"],
    "card": ["m.upcl"],
    "export": ["m.upcl", "--onnx", "m.onnx"],
    "train": ["finetune", *STREAM, "--out", "new"],
    "grid": ["grid.yaml", "--out", "runs", "--dry-run"],
    "report": ["run", "-o", "report.html"],
    "audit": [],
    "methods": [],
    "show": ["upcl"],
    "backbones": [],
    "datasets": [],
    "scenarios": [],
    "data check": ["first"],
    "data get": ["cifar10", "--data-root", "full"],
    "verify-resume": ["finetune", *STREAM, "--kills", "0"],
    "reproduce": ["uniformity", "--dry-run"],
}
LONG = ("serve", "demo", "bench")  # without an end, or minutes: only values that no command takes
NUMBERS = ["", "0", "-1", "99999999999999999999", "nan", "inf", "1e400", "0x10", "1_0", "٣", "1.5", "--", "-"]
PATHS = [
    *("", ".", "..", "pipe", "missing", "missing/deep/er", "first", "grid.yaml"),
    *("m.upcl", "run", "~nosuchuser/x", "\x1b[31mred", "new\nline", "x" * 300, "a/" * 3000, "../out"),
    *("\udcff\udcfe", "sub/\u202e.png", "-", "--", "con", "a" * 254, "https://example.invalid/x"),
]
WORDS = [
    "",
    "x",
    "UPCL",
    "upcl ",
    "é",
    "\u202e",
    "\x1b]0;title\x07",
    "[bold]",
    "'; rm -rf /",
    "{}",
    "%s%n",
    "a" * 100_000,
    "\udcff",
]
PAIRS = ["", "=", "a", "a=", "=1", "recipe.lr=nan", "recipe.epochs=1e9", "tau=[", "recipe.=1", "x.y=1", "batch_size=-1"]
UNKNOWN = ["--no-such-option", "--", "-", "--help=1", "-x"]


def all_commands(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command by its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from all_commands(found, f"{name} ")
        elif found:
            yield prefix + name, found


def bad_words(rng: random.Random, name: str, parameters: list[click.Parameter]) -> list[str]:
    """A command line with one or two odd values."""
    words = list(BASES.get(name, []))
    for _ in range(rng.choice((1, 1, 2))):
        options = [
            found for found in parameters if isinstance(found, click.Option) and found.name not in ("help", "on")
        ]
        if not options or rng.random() < 0.2:
            at = rng.randrange(len(words) + 1)
            words[at : at + rng.randrange(2)] = [rng.choice([*PATHS, *WORDS, *UNKNOWN, *NUMBERS])]
            continue
        option = rng.choice(options)
        words.append(option.opts[-1])
        if not option.is_flag:
            words.append(rng.choice([*NUMBERS, *PATHS, *WORDS, *PAIRS]))
    return words


def _call(rng: random.Random, folder: Path) -> Result:
    write_photos(folder)
    shutil.copy(make_model(rng.choice(("ridge", "upcl"))), folder / "m.upcl")
    shutil.copytree(make_run(), folder / "run")
    (folder / "grid.yaml").write_text(GRID)
    (folder / "full").write_text("a file, not a folder")
    os.mkfifo(folder / "pipe")  # never a device of this machine: who may replace it would
    name, found = rng.choice(list(all_commands(main)))
    words = [UNKNOWN[0], rng.choice(WORDS)] if name in LONG else bad_words(rng, name, found.params)
    return run_forked(command(*name.split(), *words), folder, stdin=rng.randbytes(100)).verdict()


def trials() -> dict[str, Trial]:
    """The kind of this module."""
    return {"command": _call}
