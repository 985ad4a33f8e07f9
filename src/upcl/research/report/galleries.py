"""Galleries of images: exemplars, and the errors that a model makes most often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from upcl.data.io.images import data_url
from upcl.research.grouping import method_title

from .comparisons import REFERENCE_METHODS
from .figures import RunGroups
from .load import StoredRun

MAX_CLASSES = 40


@dataclass(frozen=True)
class Picture:
    """A small image inside of a page.

    Args:
        source: the image as a data URL.
        alt: a description of it.

    Example:
        >>> Picture("data:image/png;base64,", "an owl").alt
        'an owl'
    """

    source: str
    alt: str


@dataclass(frozen=True)
class Gallery:
    """Rows of pictures.

    Args:
        rows: the name and the pictures of each row.

    Example:
        >>> Gallery((("owl", ()),)).rows[0][0]
        'owl'
    """

    rows: tuple[tuple[str, tuple[Picture, ...]], ...]


def find_illustrated_run(groups: RunGroups) -> StoredRun | None:
    """Choose the run whose images are shown: UPCL's if there is one, else the last that has any.

    Args:
        groups: runs by configuration.

    Example:
        >>> find_illustrated_run({}) is None
        True
    """
    runs = [run for group in groups.values() for run in group if run.sketch is not None]
    preferred = [run for run in runs if run.record.method in REFERENCE_METHODS]
    return next(iter(preferred or runs[-1:]), None)


def describe_run(run: StoredRun) -> str:
    """The method and the seed of a run.

    Args:
        run: the run.

    Example:
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> data = "synthetic:classes=4,train=2,test=2"
        >>> record = run(Request(method="icarl", data=data, tasks=2, epochs=1, memory="4"))
        >>> describe_run(StoredRun(Path("runs"), record))
        'iCaRL, seed 0'
    """
    return f"{method_title(run.record)}, seed {run.record.seed}"


def exemplar_gallery(run: StoredRun) -> tuple[Gallery, int]:
    """Collect exemplars, one row per class.

    Args:
        run: a run with a sketch.

    Returns:
        The gallery of the first classes, and the number of classes that have exemplars.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> from upcl.research.report.load import read_runs
        >>> folder = tempfile.TemporaryDirectory()
        >>> data = "synthetic:classes=4,train=4,test=4"
        >>> record = run(Request(method="upcl", data=data, tasks=2, epochs=1, memory="4"), out=folder.name)
        >>> (stored,) = read_runs([Path(folder.name)])
        >>> gallery, num_classes = exemplar_gallery(stored)
        >>> num_classes, [len(pictures) for _, pictures in gallery.rows]
        (4, [1, 1, 1, 1])
        >>> folder.cleanup()
    """
    assert run.sketch is not None
    classes, labels = run.record.classes, run.sketch["exemplar_labels"].tolist()
    stored = list(dict.fromkeys(labels))
    shown = set(stored[:MAX_CLASSES])
    pairs = [pair for pair in zip(labels, run.sketch["exemplars"], strict=True) if pair[0] in shown]
    rows = (
        (classes[label], tuple(make_picture(image, f"exemplar of {classes[label]}") for _, image in group))
        for label, group in groupby(pairs, key=lambda pair: pair[0])
    )
    return Gallery(tuple(rows)), len(stored)


def error_gallery(run: StoredRun) -> Gallery:
    """Collect misclassified test images, one row per pair of classes that are confused.

    Args:
        run: a run with a sketch.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from upcl import Request, run
        >>> from upcl.research.report.load import read_runs
        >>> folder = tempfile.TemporaryDirectory()
        >>> data = "synthetic:classes=4,train=4,test=4"
        >>> record = run(Request(method="upcl", data=data, tasks=2, epochs=1, memory="4"), out=folder.name)
        >>> (stored,) = read_runs([Path(folder.name)])
        >>> all(" predicted as " in name for name, _ in error_gallery(stored).rows)
        True
        >>> folder.cleanup()
    """
    assert run.sketch is not None
    labels, predicted = (run.sketch[name].tolist() for name in ("error_labels", "error_taken"))
    return Gallery(tuple(_error_rows(run.record.classes, zip(labels, predicted, run.sketch["errors"], strict=True))))


def _error_rows(
    classes: list[str], errors: Iterator[tuple[int, int, np.ndarray]]
) -> Iterator[tuple[str, tuple[Picture, ...]]]:
    for (label, predicted), group in groupby(errors, key=lambda error: error[:2]):
        title = f"{classes[label]} predicted as {classes[predicted]}"
        yield title, tuple(make_picture(image, title) for *_, image in group)


def make_picture(image: np.ndarray, alt: str) -> Picture:
    """Embed an image.

    Args:
        image: uint8 array of shape C x H x W.
        alt: a description of it.

    Example:
        >>> make_picture(np.zeros((3, 2, 2), np.uint8), "a black square").source[:22]
        'data:image/png;base64,'
    """
    return Picture(data_url(image), alt)
