"""Many images through a model: read with care, named in batches, written as people or programs want it."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from torch import Tensor

from upcl.core.errors import UserError
from upcl.data.io.images import SUFFIXES, BrokenImageError, read_square
from upcl.data.io.scan import printable, printable_path

from .learner import Learner
from .predictor import Prediction

BATCH = 64
SIGNATURES = (b"\xff\xd8", b"\x89PNG", b"GIF8", b"BM", b"II*\0", b"MM\0*")


@dataclass(frozen=True)
class Named:
    """A file and what it shows, or why it could not be read."""

    source: Source
    answer: Prediction | None
    error: str = ""

    @property
    def name(self) -> str:
        return "-" if isinstance(self.source, bytes) else printable_path(self.source)


Source = Path | bytes


"""An image's file, or its content where it came from standard input."""


def list_images(paths: Sequence[Path], stdin: BinaryIO) -> list[Source]:
    """Files as they are given, the images below folders, and for `-` the image or the names on standard input."""
    found: list[Source] = []
    for path in paths:
        if str(path) == "-":
            content = stdin.read()
            lines = [] if is_image(content) else content.splitlines()
            found += [Path(os.fsdecode(line)) for line in lines if line.strip()] or [content]
        elif path.is_dir():
            inside = sorted(p for p in path.rglob("[!.]*") if p.suffix.lower() in SUFFIXES and p.is_file())
            if not inside:
                raise UserError(f"{printable_path(path)} holds no images ({', '.join(sorted(SUFFIXES))})")
            found += inside
        else:
            found.append(path)
    return found


def is_image(content: bytes) -> bool:
    """Whether bytes begin like an image, not like a list of names."""
    return content.startswith(SIGNATURES) or content[8:12] == b"WEBP"


def predictions(learner: Learner, sources: Iterable[Source], top: int) -> Iterator[Named]:
    spec = learner.require_bundle().spec
    for some in _batched(sources, BATCH):
        squares: list[Tensor | str] = []
        for source in some:
            file = io.BytesIO(source) if isinstance(source, bytes) else source
            try:
                squares.append(torch.from_numpy(read_square(file, spec.size, spec.channels)))
            except BrokenImageError as error:
                squares.append(str(error))
        good = [square for square in squares if isinstance(square, Tensor)]
        answers = iter(learner.answers(torch.stack(good), top) if good else [])
        for source, square in zip(some, squares, strict=True):
            yield Named(source, None, square) if isinstance(square, str) else Named(source, next(answers))


def _batched(sources: Iterable[Source], size: int) -> Iterator[list[Source]]:
    waiting: list[Source] = []
    for source in sources:
        waiting.append(source)
        if len(waiting) == size:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def written(found: Iterable[Named], kind: str, console: Console) -> int:
    """Print as it comes; the number of files that could not be read."""
    failed = 0
    table = Table(Column("image", overflow="fold"), "shows", "confidence", "next")
    writer = csv.writer(sys.stdout)
    if kind == "csv":
        writer.writerow(["image", "name", "confidence", "known", "names", "confidences", "error"])
    for each in found:
        answer, path = each.answer, each.name
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
            first = f"{answer.confidence[0]:.4f}" if answer.known else ""
            writer.writerow([path, answer.name, first, answer.known, "|".join(answer.names), sure, ""])
        else:
            others = zip(answer.names[1:], answer.confidence[1:], strict=True)
            rest = ", ".join(f"{name} {value:.0%}" for name, value in others)
            sure = f"{answer.confidence[0]:.0%}" if answer.known else f"({answer.names[0]} {answer.confidence[0]:.0%})"
            table.add_row(*(escape(printable(text)) for text in (path, answer.name, sure, rest)))
    if kind == "table" and table.row_count:
        console.print(table)
    return failed


def _plain(each: Named) -> dict[str, object]:
    if each.answer is None:
        return {"image": each.name, "error": each.error}
    answer = each.answer
    return {
        "image": each.name,
        "name": answer.name,
        "known": answer.known,
        "familiarity": round(answer.familiarity, 4),
        "top": [{"name": n, "confidence": round(c, 4)} for n, c in zip(answer.names, answer.confidence, strict=True)],
    }
