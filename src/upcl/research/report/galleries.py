"""Galleries of images: exemplars, and the errors that a model makes most often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from upcl.data.io.images import data_url
from upcl.research.statistics import method_title

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
    """

    source: str
    alt: str


@dataclass(frozen=True)
class Gallery:
    """Rows of pictures.

    Args:
        rows: the name and the pictures of each row.
    """

    rows: tuple[tuple[str, tuple[Picture, ...]], ...]


def find_illustrated_run(groups: RunGroups) -> StoredRun | None:
    """Choose the run whose images are shown: UPCL's if there is one, else the last that has any.

    Args:
        groups: runs by configuration.
    """
    runs = [run for group in groups.values() for run in group if run.sketch is not None]
    preferred = [run for run in runs if run.record.method in REFERENCE_METHODS]
    return next(iter(preferred or runs[-1:]), None)


def describe_run(run: StoredRun) -> str:
    """The method and the seed of a run.

    Args:
        run: the run.
    """
    return f"{method_title(run.record)}, seed {run.record.seed}"


def exemplar_gallery(run: StoredRun) -> tuple[Gallery, int]:
    """Collect exemplars, one row per class.

    Args:
        run: a run with a sketch.

    Returns:
        The gallery of the first classes, and the number of classes that have exemplars.
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
