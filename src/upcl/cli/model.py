"""`upcl info`, `history`, `rollback` and `forget`: inspect a model, return to an earlier step, remove a class."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .console import format_percent, report_errors, stdout_console
from .learn import READINGS, accuracy_table, update_summary
from .options import MODEL_FILE, PATH

if TYPE_CHECKING:
    from rich.table import Table
    from torch import Tensor

    from upcl.model.bundle import Bundle, ModelSpec, ModelState
    from upcl.model.learner import Learner

MAX_NAMES = 100  # classes of a step that the history names


@click.command()
@MODEL_FILE
@report_errors()
def info(model: Path) -> None:
    """Describe a model: classes, accuracy, method, network.

    Also lists what the file contains and how well "none of these" works.

    \b
    Example:
      upcl info birds.upcl
    """
    from upcl.model.learner import Learner

    console = stdout_console()
    for part in model_tables(Learner(model, device="cpu").require_bundle(), model):
        console.print(part)


@click.command()
@MODEL_FILE
@report_errors()
def history(model: Path) -> None:
    """List the updates of a model and their accuracy.

    One row per step: what was learned and when, the accuracy afterwards, and whether the step can be restored.

    \b
    Examples:
      upcl history birds.upcl
      upcl rollback birds.upcl --to 1
    """
    from upcl.model.learner import Learner

    stdout_console().print(history_table(Learner(model, device="cpu").require_bundle()))


@click.command()
@MODEL_FILE
@click.option("--to", "step", type=int, required=True, help="Step to return to, as numbered by `upcl history`.")
@report_errors()
def rollback(model: Path, step: int) -> None:
    """Return a model to an earlier step.

    Everything learned after that step is removed from the file.

    \b
    Examples:
      upcl history birds.upcl
      upcl rollback birds.upcl --to 1
    """
    from upcl.model.learner import Learner

    learner = Learner(model).rollback(step)
    click.echo(f"{model} is back at step {step}: {len(learner.classes)} classes")


@click.command()
@MODEL_FILE
@click.option("--class", "name", help="Name of the class to remove.")
@click.option("--photo", type=PATH, help="Photo to remove, recognised by its content.")
@report_errors()
def forget(model: Path, name: str | None, photo: Path | None) -> None:
    """Remove a class, or a single photo, from a model.

    A classifier in closed form, the default for photos, is then exactly the one that would have been computed without
    them. If the network was trained, its weights keep what they learned from the images of a class; only a new model,
    learned without them, is free of it.

    \b
    Examples:
      upcl forget birds.upcl --class robin
      upcl forget birds.upcl --photo robin/12.jpg
    """
    from upcl.core.errors import UserError
    from upcl.model.closed_form import is_closed_form
    from upcl.model.learner import Learner

    if (name is None) == (photo is None):
        raise UserError("specify --class NAME or --photo FILE")
    learner = Learner(model)
    if photo is not None:
        before = learner.forget_photo(photo)
        click.echo(f"Removed the photo from {model}, where it was known as '{before}', and all earlier steps.")
        _echo_accuracy(learner)
        return
    exact = is_closed_form(learner.require_bundle().spec)
    learner.forget(str(name))
    click.echo(
        f"Removed '{name}' from {model}: its name, images, features, row of the head and all earlier steps. Copies of "
        "the file still contain them."
    )
    if exact:
        click.echo("The classifier is the one that would have been computed without this class.")
    else:
        click.echo(
            "The weights of the network still reflect its images; that cannot be undone. To remove all traces, learn a "
            "new model from the photos of the other classes."
        )
    _echo_accuracy(learner)


@click.command()
@MODEL_FILE
@click.argument("name")
@click.argument("new")
@report_errors()
def rename(model: Path, name: str, new: str) -> None:
    """Rename the class NAME to NEW.

    \b
    Example:
      upcl rename birds.upcl robin "European robin"
    """
    from upcl.model.learner import Learner

    Learner(model).rename(name, new)
    click.echo(f"'{name}' is now '{new}' in {model}")


@click.command()
@MODEL_FILE
@click.argument("name")
@click.argument("into")
@report_errors()
def merge(model: Path, name: str, into: str) -> None:
    """Merge the class NAME into the class INTO.

    This needs a classifier in closed form, the default for photos. The photos themselves are not needed.

    \b
    Example:
      upcl merge birds.upcl crow raven
    """
    from upcl.model.learner import Learner

    learner = Learner(model).merge(name, into)
    click.echo(f"merged '{name}' into '{into}': {len(learner.classes)} classes")
    _echo_accuracy(learner)


@click.command()
@MODEL_FILE
@click.argument("photo", type=PATH)
@click.option("--class", "name", required=True, help="The class that the photo belongs to.")
@report_errors()
def correct(model: Path, photo: Path, name: str) -> None:
    """Move a learned PHOTO to the class that it belongs to.

    This needs a classifier in closed form, the default for photos. The other photos are not needed.

    \b
    Example:
      upcl correct birds.upcl crow/7.jpg --class raven
    """
    from upcl.model.learner import Learner

    learner = Learner(model)
    before = learner.correct(photo, name)
    click.echo(f"the photo belongs to '{name}' now, no longer to '{before}'")
    _echo_accuracy(learner)


def _echo_accuracy(learner: Learner) -> None:
    """Print what an edit did to the accuracy, and by which method the classifier is computed now."""
    from upcl.methods import METHODS

    *_, accuracy = update_summary(bundle := learner.require_bundle())
    click.echo(f"classifier: {METHODS[bundle.spec.method].title}\n{accuracy}")


def history_table(bundle: Bundle) -> Table:
    """A table of the steps of a model, with the accuracy on all classes and on those of the first step.

    Args:
        bundle: the model.

    Example:
        >>> from upcl.model.bundle import Bundle, HistoryEntry, ModelSpec
        >>> spec = ModelSpec("upcl", {}, "small", channels=1, size=8, mean=(0.5,), std=(0.2,), memory="20/class")
        >>> step = HistoryEntry("2026-01-01", added=("cat", "dog"), images=40)
        >>> list(history_table(Bundle(spec, (step,), {})).columns[2].cells)
        ['new: cat, dog']
    """
    from rich.table import Table

    from upcl.core.text import printable

    caption = "accuracy on held-out images; first: on the classes of the first step"
    table = Table(title="history", caption=caption)
    table.add_column("step")
    table.add_column("date", no_wrap=True)
    table.add_column("learned", overflow="fold")
    for title in ("images", "accuracy", "first", "time"):
        table.add_column(title, justify="right")
    table.add_column("stored")
    for number, entry in enumerate(bundle.history):
        what = [f"new: {_list_names(entry.added)}"] if entry.added else []
        what += [f"more of: {_list_names(entry.extra)}"] if entry.extra else []
        table.add_row(
            str(number),
            entry.when[:10],
            printable("; ".join(what) or entry.note),
            str(entry.images),
            format_percent(entry.best_accuracy),
            format_percent(entry.mean_accuracy(bundle.history[0].added)),
            f"{entry.seconds:.0f} s",
            "yes" if number in bundle.states else "no",
        )
    return table


def _list_names(names: Collection[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(islice(names, MAX_NAMES)) + more


def model_tables(bundle: Bundle, path: Path) -> Iterator[Table | str]:
    """Everything about a model: its parts, the accuracy per class and the history.

    Args:
        bundle: the model.
        path: its file.

    Example:
        >>> from upcl import Learner
        >>> for part in model_tables(Learner("birds.upcl").require_bundle(), Path("birds.upcl")):  # doctest: +SKIP
        ...     stdout_console().print(part)
    """
    from rich.table import Table

    from upcl.core.text import printable

    num_classes, num_steps = len(bundle.state.class_names), len(bundle.history)
    yield f"{path}: {num_classes} classes, {num_steps} steps, {path.stat().st_size / 1e6:.1f} MB"
    table = Table(show_header=False)
    for key, value in describe_model(bundle).items():
        table.add_row(key, printable(value))
    yield table
    yield accuracy_table(bundle)
    yield history_table(bundle)


def describe_model(bundle: Bundle) -> dict[str, str]:
    """The properties of a model, in words.

    Args:
        bundle: the model.

    Example:
        >>> from upcl.core.types import NO_SAMPLES
        >>> from upcl.model.bundle import Bundle, ModelSpec, ModelState
        >>> spec = ModelSpec("upcl", {}, "small", channels=1, size=8, mean=(0.5,), std=(0.2,), memory="20/class")
        >>> state = ModelState({}, growth=(2,), classes=("cat", "dog"), exemplars=NO_SAMPLES, held_out=NO_SAMPLES)
        >>> describe_model(Bundle(spec, (), {0: state}))["images"]
        '8 x 8, grey; mean 0.5, std 0.2'
    """
    from upcl.methods.registry import find_method, method_options
    from upcl.model.manifest import FORMAT, VERSION

    spec, state, calibration = bundle.spec, bundle.state, bundle.state.calibration
    method = find_method(spec.method)
    defaults = method_options(spec.method, method, {})
    changed = [f"{name}={value}" for name, value in spec.options.items() if value != defaults.get(name)]
    network = [spec.backbone, f"{_num_parameters(state.weights):,} parameters"]
    network += [f"pretrained: {spec.pretrained}"] if spec.pretrained else []
    network += ["backbone frozen"] if spec.frozen else []
    mean, std = (", ".join(f"{value:.4g}" for value in values) for values in (spec.mean, spec.std))
    error = f"{calibration.calibration_error:.1%}" if calibration.num_images > 1 else "unknown: no image is held out"
    rejection = "disabled: no image is held out"
    if calibration.num_images:
        rate = f"{calibration.false_alarm_rate:.1%} of {calibration.num_images}"
        rejection = f"familiarity below {calibration.threshold:.3f}; false alarms on held-out images: {rate}"
        if calibration.auroc is not None:
            rejection += f"; AUROC on classes left out: {calibration.auroc:.3f}"
    versions = [f"{name} {version}" for name, version in bundle.written_by.items()]
    return {
        "method": ", ".join([method.title, *changed]),
        "network": ", ".join(network),
        "images": f"{spec.size} x {spec.size}, {'grey' if spec.channels == 1 else 'colour'}; mean {mean}, std {std}",
        "memory": _describe_memory(spec, state, len(bundle.pictures)),
        "predicts by": READINGS[state.reading],
        "confidence": f"temperature {calibration.temperature:.3g}; expected calibration error {error}",
        "none of these": rejection,
        "written by": ", ".join(versions) + f"; format {FORMAT} {VERSION}",
    }


def _num_parameters(weights: Mapping[str, Tensor]) -> int:
    """Weights of network and classifier, without the sums that a classifier in closed form is computed from."""
    sums = {"head.gram", "head.sums", "head.counts"} if "head.sums" in weights else set()
    network = (value for name, value in weights.items() if name not in sums and not name.startswith("familiarity."))
    return sum(value.numel() for value in network)


def _describe_memory(spec: ModelSpec, state: ModelState, num_pictures: int) -> str:
    held_out = f"{len(state.held_out)} held-out images"
    if not spec.features:
        return f"{spec.memory}: {len(state.exemplars)} exemplars, {held_out}"
    kept = "sums over all photos" if spec.keep == "none" else f"features of {len(state.exemplars)} photos"
    return f"{num_pictures or 'no'} pictures; {kept}, features of {held_out}"
