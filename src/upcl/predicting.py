"""Many images through a model: read with care, named in batches, written as people or programs want it."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np
import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from torch import Tensor

from .data.health import readable
from .data.pixels import SUFFIXES, BrokenImageError, fit_square, read_image
from .errors import UserError
from .learner import Answer, Learner

BATCH = 64


@dataclass(frozen=True)
class Named:
    """A file and what it shows, or why it could not be read."""

    path: Path
    answer: Answer | None
    error: str = ""


def list_images(paths: Sequence[Path], stdin: TextIO) -> list[Path]:
    """Files as they are given, the images below folders, and for `-` the names that standard input tells."""
    found: list[Path] = []
    for path in paths:
        if str(path) == "-":
            found += [Path(line.rstrip("\n")) for line in stdin if line.strip()]
        elif path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
            if not inside:
                raise UserError(f"{readable(path)} holds no images ({', '.join(sorted(SUFFIXES))})")
            found += inside
        else:
            found.append(path)
    return found


def square_of(file: Path | BinaryIO, size: int, channels: int) -> Tensor:
    """One image as the model sees it (C x size x size)."""
    image = fit_square(read_image(file), size).convert("L" if channels == 1 else "RGB")
    pixels = np.array(image)
    return torch.from_numpy(pixels[None] if channels == 1 else pixels.transpose(2, 0, 1))


def predictions(learner: Learner, paths: Iterable[Path], top: int) -> Iterator[Named]:
    making = learner.whole().making
    for some in _batched(paths, BATCH):
        squares: list[Tensor | str] = []
        for path in some:
            try:
                squares.append(square_of(path, making.size, making.channels))
            except BrokenImageError as error:
                squares.append(str(error))
        good = [square for square in squares if isinstance(square, Tensor)]
        answers = iter(learner.answers(torch.stack(good), top) if good else [])
        for path, square in zip(some, squares, strict=True):
            yield Named(path, None, square) if isinstance(square, str) else Named(path, next(answers))


def _batched(paths: Iterable[Path], size: int) -> Iterator[list[Path]]:
    waiting: list[Path] = []
    for path in paths:
        waiting.append(path)
        if len(waiting) == size:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def written(found: Iterable[Named], kind: str, console: Console) -> int:
    """Print as it comes; the number of files that could not be read."""
    failed = 0
    table = Table("image", "shows", "confidence", "next")
    writer = csv.writer(sys.stdout)
    if kind == "csv":
        writer.writerow(["image", "name", "confidence", "known", "names", "confidences", "error"])
    for each in found:
        answer, path = each.answer, readable(each.path)
        failed += answer is None
        if kind == "json":
            print(json.dumps(_plain(each)), flush=True)
        elif answer is None:
            if kind == "csv":
                writer.writerow([path, "", "", "", "", "", each.error])
            else:
                print(f"error: {path}: {each.error}", file=sys.stderr)
        elif kind == "csv":
            sure = " ".join(f"{value:.4f}" for value in answer.confidence)
            first = f"{answer.confidence[0]:.4f}"
            writer.writerow([path, answer.name, first, answer.known, "|".join(answer.names), sure, ""])
        else:
            others = zip(answer.names[1:], answer.confidence[1:], strict=True)
            rest = ", ".join(f"{name} {value:.0%}" for name, value in others)
            sure = f"{answer.confidence[0]:.0%}" if answer.known else f"({answer.names[0]} {answer.confidence[0]:.0%})"
            table.add_row(escape(path), escape(answer.name), escape(sure), escape(rest))
    if kind == "table" and table.row_count:
        console.print(table)
    return failed


def _plain(each: Named) -> dict[str, object]:
    if each.answer is None:
        return {"image": readable(each.path), "error": each.error}
    answer = each.answer
    return {
        "image": readable(each.path),
        "name": answer.name,
        "known": answer.known,
        "familiarity": round(answer.familiarity, 4),
        "top": [{"name": n, "confidence": round(c, 4)} for n, c in zip(answer.names, answer.confidence, strict=True)],
    }
