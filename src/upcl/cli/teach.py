"""`upcl label`, `explain` and `card`: which photos to label next, where an answer comes from, what a model can do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .console import RERUN, report_errors, stdout_console
from .options import MODEL, MODEL_FILE, PATH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from upcl.model.labelling import PhotoToLabel


@click.command()
@click.argument("folder", type=PATH)
@MODEL
@click.option(
    "--suggest", "num", type=click.IntRange(1), metavar="N", default=10, show_default=True, help="Number of photos."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@report_errors(interrupted=RERUN)
def label(folder: Path, model: Path, num: int, as_json: bool) -> None:
    """Suggest which photos in FOLDER to label next.

    Those would teach the model most: it is uncertain about them, they stand for many others, and they are unlike each
    other. Move each into the folder of its class, then run `upcl learn`. The gain is the expected number of wrong
    answers among all photos of FOLDER that the label speaks for.

    \\b
    Examples:
      upcl label unsorted/ --model birds.upcl
      upcl label unsorted/ --model birds.upcl --suggest 50 --json
    """
    import json
    from dataclasses import asdict

    from upcl.model.labelling import photos_to_label
    from upcl.model.learner import Learner

    found = photos_to_label(Learner(model), folder, num)
    if as_json:
        click.echo(json.dumps([asdict(photo) for photo in found], indent=1))
        return
    stdout_console().print(label_table(found))


def label_table(photos: Sequence[PhotoToLabel]) -> Table:
    """A table of photos to label.

    Args:
        photos: the suggestions.

    Example:
        >>> from upcl.model.labelling import PhotoToLabel
        >>> list(label_table([PhotoToLabel("7.jpg", "robin", 0.41, gain=3.2)]).columns[3].cells)
        ['3.2']
    """
    from rich.table import Column, Table

    from upcl.core.text import printable

    right = [Column(title, justify="right") for title in ("confidence", "gain")]
    table = Table(Column("photo", overflow="fold"), "looks like", *right, title="label these next")
    for photo in photos:
        table.add_row(printable(photo.path), printable(photo.proposal), f"{photo.confidence:.0%}", f"{photo.gain:.1f}")
    return table


@click.command()
@click.argument("photo", type=PATH)
@MODEL
@click.option("--class", "name", help="Explain this class instead of the most likely one.")
@click.option("-o", "--out", type=PATH, default=Path("why.png"), show_default=True, help="The picture to write (PNG).")
@report_errors()
def explain(photo: Path, model: Path, name: str | None, out: Path) -> None:
    """Draw where in PHOTO the answer comes from.

    Bright places speak for the class, in comparison with all other classes. For the classifiers in closed form that
    work on the features themselves (ncm, slda, ridge) this is exact; for others it is a linear approximation.

    \\b
    Examples:
      upcl explain photo.jpg --model birds.upcl
      upcl explain photo.jpg --model birds.upcl --class wren -o wren.png
    """
    from upcl.core.errors import UserError
    from upcl.core.files import write_atomic
    from upcl.data.io.images import BrokenImageError
    from upcl.data.io.paths import printable_path
    from upcl.model.explanation import explain as explain_photo
    from upcl.model.learner import Learner

    try:
        found = explain_photo(Learner(model).predictor, photo, name)
    except BrokenImageError as error:
        raise UserError(f"{printable_path(photo)} cannot be read: {error}") from None
    write_atomic(out, found.png())
    kind = "exact" if found.exact else "a linear approximation"
    click.echo(
        f"{found.name}, confidence {found.confidence:.0%}: {printable_path(out)} shows where it comes from ({kind})"
    )


@click.command()
@MODEL_FILE
@click.option("-o", "--out", type=PATH, help="The file to write; by default, standard output.")
@report_errors()
def card(model: Path, out: Path | None) -> None:
    """Write a model card in Markdown: data, accuracy, limits.

    \\b
    Examples:
      upcl card birds.upcl
      upcl card birds.upcl -o card.md
    """
    from upcl.core.files import write_atomic
    from upcl.data.io.paths import printable_path
    from upcl.model.card import write_card
    from upcl.model.learner import Learner

    text = write_card(Learner(model, device="cpu").require_bundle(), model)
    if out is None:
        click.echo(text, nl=False)
        return
    write_atomic(out, text.encode())
    click.echo(f"written to {printable_path(out)}")
