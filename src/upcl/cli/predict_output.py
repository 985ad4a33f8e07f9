"""Rendering of `upcl predict`: a table for people, CSV and JSON lines for programs."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from upcl.core.text import printable, spreadsheet_cell
from upcl.data.io.paths import printable_path

if TYPE_CHECKING:
    from rich.console import Console

    from upcl.model.predictor import ImagePrediction, Prediction

CSV_HEADER = ("image", "name", "confidence", "known", "names", "confidences", "error")


def write_predictions(
    results: Iterable[ImagePrediction],
    format: str,  # noqa: A002
    console: Console,
    *,
    spreadsheet_safe: bool = False,
) -> int:
    """Print predictions: JSON and CSV line by line as they arrive, a table at the end.

    Args:
        results: predictions, such as `Predictor.predict_files` yields.
        format: `table`, `csv` or `json` (one object per line).
        console: where the table is printed; CSV and JSON go to standard output.
        spreadsheet_safe: put an apostrophe before texts in CSV that a spreadsheet would take for formulas.

    Returns:
        The number of images that could not be decoded.

    Example:
        >>> from rich.console import Console
        >>> from upcl.model.predictor import ImagePrediction, Prediction
        >>> cat = Prediction(("cat", "dog"), (0.9, 0.1), familiarity=0.8, known=True)
        >>> results = [ImagePrediction(Path("a.jpg"), cat), ImagePrediction(Path("b.jpg"), error="is not an image")]
        >>> write_predictions(results[1:], "json", Console())
        {"image": "b.jpg", "error": "is not an image"}
        1
    """
    writers: dict[str, Callable[[], _Writer]] = {
        "table": lambda: _TableWriter(console),
        "csv": lambda: _CsvWriter(spreadsheet_safe=spreadsheet_safe),
        "json": _JsonWriter,
    }
    writer = writers[format]()
    num_failed = 0
    for result in results:
        name = "-" if not isinstance(result.source, Path) else printable_path(result.source)
        if result.prediction is None:
            num_failed += 1
            writer.error(name, result.error)
        else:
            writer.prediction(name, result.prediction)
    writer.close()
    return num_failed


class _Writer(Protocol):
    def prediction(self, name: str, prediction: Prediction) -> None: ...

    def error(self, name: str, error: str) -> None: ...

    def close(self) -> None: ...


class _JsonWriter:
    def prediction(self, name: str, prediction: Prediction) -> None:
        ranked = zip(prediction.names, prediction.confidence, strict=True)
        self._print(
            {
                "image": name,
                "name": prediction.name,
                "known": prediction.known,
                "familiarity": round(prediction.familiarity, 4),
                "top": [{"name": other, "confidence": round(value, 4)} for other, value in ranked],
            }
        )

    def error(self, name: str, error: str) -> None:
        self._print({"image": name, "error": error})

    def _print(self, value: dict[str, Any]) -> None:
        print(json.dumps(value), flush=True)

    def close(self) -> None: ...


class _CsvWriter:
    def __init__(self, *, spreadsheet_safe: bool) -> None:
        self.rows = csv.writer(sys.stdout, lineterminator="\n")
        self.spreadsheet_safe = spreadsheet_safe
        self._write(CSV_HEADER)

    def prediction(self, name: str, prediction: Prediction) -> None:
        values = [f"{value:.4f}" for value in prediction.confidence]
        first = values[0] if prediction.known else ""
        names = "|".join(prediction.names)
        self._write([name, prediction.name, first, prediction.known, names, " ".join(values), ""])

    def error(self, name: str, error: str) -> None:
        self._write([name, "", "", "", "", "", error])

    def _write(self, cells: Sequence[Any]) -> None:
        self.rows.writerow(map(spreadsheet_cell, cells) if self.spreadsheet_safe else cells)

    def close(self) -> None: ...


class _TableWriter:
    """Errors go to standard error at once, the table to the console at the end."""

    def __init__(self, console: Console) -> None:
        from rich.table import Column, Table

        self.console = console
        self.table = Table(Column("image", overflow="fold"), "class", "confidence", "other classes")

    def prediction(self, name: str, prediction: Prediction) -> None:
        first, *others = (
            f"{other} {value:.0%}" for other, value in zip(prediction.names, prediction.confidence, strict=True)
        )
        confidence = f"{prediction.confidence[0]:.0%}" if prediction.known else f"({first})"
        cells = (name, prediction.name, confidence, ", ".join(others))
        self.table.add_row(*(printable(text) for text in cells))

    def error(self, name: str, error: str) -> None:
        print(f"error: {name}: {error}", file=sys.stderr)

    def close(self) -> None:
        if self.table.row_count:
            self.console.print(self.table)
