"""`upcl data get` and `upcl data check`: download a data set, check its files or a folder of images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upcl.core.errors import UserError

from .console import RERUN, report_errors, stdout_console
from .group import SuggestingGroup
from .options import DATA_ROOT, PATH

if TYPE_CHECKING:
    from rich.table import Table

    from upcl.data import Dataset
    from upcl.data.io.scan import FolderReport
    from upcl.model.inspection import Inspection

MAX_SIZES = 10  # image sizes that are listed
MAX_FILES = 20  # files that are listed per problem


@click.group(cls=SuggestingGroup)
def data() -> None:
    """Download data sets; check them or a folder of images.

    \b
    Examples:
      upcl data get cifar100
      upcl data check cub200
      upcl data check photos/
    """


@data.command()
@click.argument("name")
@DATA_ROOT
@report_errors(interrupted=RERUN)
def get(name: str, data_root: Path | None) -> None:
    """Download the data set NAME from its official address.

    The checksum is verified, and an interrupted download is resumed.

    \b
    Examples:
      upcl data get cifar100
      upcl data get tinyimagenet --data-root /data
    """
    from upcl.data.io.download import download_dataset
    from upcl.data.io.paths import data_root as resolve_root

    click.echo(f"{name} is in {download_dataset(name, resolve_root(data_root))}")


@data.command()
@click.argument("path", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Print the complete report as JSON.")
@click.option(
    "--model", type=PATH, help="Also find wrong labels, near-duplicates and outliers by this model's network."
)
@DATA_ROOT
@report_errors()
def check(path: Path, as_json: bool, model: Path | None, data_root: Path | None) -> None:
    """Check the folder of images PATH before training on it.

    Lists classes and image sizes, files that cannot be read, duplicates, images in two classes and images that leak
    from the training part into the test part. PATH holds CLASS/*, or train/CLASS/* and test/CLASS/*.

    With --model, the photos are also compared by the features that the model's network computes: photos that another
    class of the folder fits better, photos that are nearly the same, and photos that resemble no class.

    PATH may also be the name of a data set, such as cub200: checks that its files are in the data root and complete.

    \b
    Examples:
      upcl data check cub200
      upcl data check photos/
      upcl data check photos/ --model birds.upcl
      upcl data check photos/ --json
    """
    import json

    from upcl.data import DATASETS, load_dataset
    from upcl.data.io.scan import scan_folder

    if str(path) in DATASETS and not path.exists():
        if model is not None:
            raise UserError("--model compares the photos of a folder: give the path of one")
        described = describe_dataset(load_dataset(str(path), data_root))
        click.echo(json.dumps(described, indent=1) if as_json else "\n".join(dataset_lines(described)))
        return
    report, files = scan_folder(path)
    inspection = None
    if model is not None:
        from upcl.model.inspection import inspect_photos
        from upcl.model.learner import Learner

        learner = Learner(model)
        inspection = inspect_photos(learner.require_bundle(), path, files, learner.device)
    if as_json:
        found = report.to_json() | (inspection.to_json() if inspection else {})
        click.echo(json.dumps(found, indent=1))
        return
    console = stdout_console()
    for part in folder_report_lines(report):
        console.print(part)
    for line in inspection_lines(inspection) if inspection else ():
        console.print(line)


def describe_dataset(dataset: Dataset) -> dict[str, Any]:
    """What a data set consists of, as JSON.

    Args:
        dataset: the loaded data set.

    Example:
        >>> from upcl.data import load_dataset
        >>> described = describe_dataset(load_dataset("digits:num_classes=2,train=5,test=3"))
        >>> described["classes"], described["shape"]
        ({'0': {'train': 5, 'test': 3}, '1': {'train': 5, 'test': 3}}, [1, 8, 8])
    """
    num = len(dataset.classes)
    counts = zip(dataset.train.counts(num).tolist(), dataset.test.counts(num).tolist(), strict=True)
    return {
        "name": dataset.name,
        "classes": {
            name: {"train": train, "test": test} for name, (train, test) in zip(dataset.classes, counts, strict=True)
        },
        "shape": list(dataset.image_shape),
        "notes": list(dataset.notes),
    }


def dataset_lines(described: Mapping[str, Any]) -> Iterator[str]:
    """The result of `describe_dataset` in a few lines.

    Args:
        described: the result.

    Example:
        >>> from upcl.data import load_dataset
        >>> print(*dataset_lines(describe_dataset(load_dataset("digits"))), sep="\\n")
        digits: 10 classes, 1,442 training and 355 test images, 1x8x8
        training images per class: 140 to 147; test images per class: 34 to 36
    """
    counts = list(described["classes"].values())
    train, test = ([each[split] for each in counts] for split in ("train", "test"))
    shape = "x".join(map(str, described["shape"]))
    yield f"{described['name']}: {len(counts)} classes, {sum(train):,} training and {sum(test):,} test images, {shape}"
    yield f"training images per class: {min(train)} to {max(train)}; test images per class: {min(test)} to {max(test)}"
    yield from (f"note: {note}" for note in described["notes"])


def folder_report_lines(report: FolderReport) -> Iterator[Table | str]:
    """A table of the classes, then each kind of problem with its files.

    Args:
        report: what was found in the folder.

    Example:
        >>> from upcl.data.io.scan import FolderReport
        >>> counts = {"cat": {"train": 8, "test": 2}, "dog": {"train": 4, "test": 2}}
        >>> report = FolderReport(counts, {"64x64": 16}, 0, 2.0, [], [], [], [], [], [])
        >>> next(folder_report_lines(report))
        '2 classes, imbalance ratio 2.0'
    """
    from rich.table import Table

    yield f"{len(report.classes)} classes, imbalance ratio {report.imbalance:.1f}"
    table = Table("class", "train", "test")
    for label, counts in report.classes.items():
        table.add_row(label, str(counts["train"]), str(counts["test"]))
    yield table
    yield from (f"note: {remark}" for remark in report.layout_notes)
    sizes = ", ".join(f"{size} ({num})" for size, num in list(report.sizes.items())[:MAX_SIZES])
    yield f"sizes: {sizes}; grey: {report.grey}"
    problems = {
        "unreadable files": [f"{path}: {reason}" for path, reason in report.broken],
        "folders without images": report.empty,
        "duplicates within a class": [" = ".join(group) for group in report.duplicates],
        "same image in two classes": [" = ".join(group) for group in report.label_conflicts],
        "same image in train and test": [" = ".join(group) for group in report.train_test_leaks],
    }
    yield from _problem_lines(problems)


def inspection_lines(inspection: Inspection) -> Iterator[str]:
    """Each kind of remark on photos, from their features, with its files.

    Args:
        inspection: what was found.

    Example:
        >>> from upcl.model.inspection import Inspection
        >>> print(*inspection_lines(Inspection([("cat/1.jpg", "cat", "dog", 0.02)], [], [])), sep="\\n")
        doubtful labels, the most doubtful first: 1
          cat/1.jpg: dog? (cat 2 %)
        near-duplicates: none
        photos unlike all others: none
    """
    yield from _problem_lines(
        {
            "doubtful labels, the most doubtful first": [
                f"{path}: {likely}? ({given} {100 * own:.0f} %)"
                for path, given, likely, own in inspection.doubtful_labels
            ],
            "near-duplicates": [
                f"{first} ~ {second} (cosine {cosine:.2f})" for first, second, cosine in inspection.near_duplicates
            ],
            "photos unlike all others": [
                f"{path} (familiarity {familiarity:.2f})" for path, familiarity in inspection.outliers
            ],
        }
    )


def _problem_lines(problems: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for problem, lines in problems.items():
        yield f"{problem}: {len(lines) or 'none'}"
        yield from (f"  {line}" for line in lines[:MAX_FILES])
        if len(lines) > MAX_FILES:
            yield f"  and {len(lines) - MAX_FILES} more (--json lists all)"
