"""`upcl info`, `history`, `rollback` and `forget`: inspect a model, return to an earlier step, remove a class."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .console import format_percent, report_errors, stdout_console
from .learn import READINGS, accuracy_table
from .options import MODEL_FILE

if TYPE_CHECKING:
    from rich.table import Table

    from upcl.model.bundle import Bundle


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
@click.option("--class", "name", required=True, help="Name of the class to remove.")
@report_errors()
def forget(model: Path, name: str) -> None:
    """Remove a class and its images from a model.

    The weights of the network keep what they learned from these images; only a new model, learned without them, is
    free of it.

    \b
    Example:
      upcl forget birds.upcl --class robin
    """
    from upcl.model.learner import Learner

    Learner(model).forget(name)
    click.echo(
        f"Removed '{name}' from {model}: its name, exemplars, held-out images, row of the head and all earlier steps. "
        "Copies of the file still contain them.\nThe weights of the network still reflect its images; that cannot be "
        "undone. To remove all traces, learn a new model from the photos of the other classes."
    )


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
    from rich.markup import escape
    from rich.table import Table

    from upcl.data.io.paths import printable

    caption = "accuracy on held-out images; first: on the classes of the first step"
    table = Table(title="history", caption=caption)
    table.add_column("step")
    table.add_column("date", no_wrap=True)
    table.add_column("learned", overflow="fold")
    for title in ("images", "accuracy", "first", "time"):
        table.add_column(title, justify="right")
    table.add_column("stored")
    for number, entry in enumerate(bundle.history):
        what = [f"new: {', '.join(entry.added)}"] if entry.added else []
        what += [f"more of: {', '.join(entry.extra)}"] if entry.extra else []
        table.add_row(
            str(number),
            entry.when[:10],
            escape(printable("; ".join(what) or entry.note)),
            str(entry.images),
            format_percent(entry.best_accuracy),
            format_percent(entry.mean_accuracy(bundle.history[0].added)),
            f"{entry.seconds:.0f} s",
            "yes" if number in bundle.states else "no",
        )
    return table


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
    from rich.markup import escape
    from rich.table import Table

    from upcl.data.io.paths import printable

    num_classes, num_steps = len(bundle.state.class_names), len(bundle.history)
    yield escape(f"{path}: {num_classes} classes, {num_steps} steps, {path.stat().st_size / 1e6:.1f} MB")
    table = Table(show_header=False)
    for key, value in describe_model(bundle).items():
        table.add_row(key, escape(printable(value)))
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
    from upcl.model.file import FORMAT, VERSION

    spec, state, calibration = bundle.spec, bundle.state, bundle.state.calibration
    method = find_method(spec.method)
    defaults = method_options(spec.method, method, {})
    changed = [f"{name}={value}" for name, value in spec.options.items() if value != defaults.get(name)]
    network = [spec.backbone, f"{sum(value.numel() for value in state.weights.values()):,} parameters"]
    network += [f"pretrained: {spec.pretrained}"] if spec.pretrained else []
    network += ["backbone frozen"] if spec.frozen else []
    mean, std = (", ".join(map(str, values)) for values in (spec.mean, spec.std))
    rejection = "disabled: no image is held out"
    if calibration.num_images:
        rate = f"{calibration.false_alarm_rate:.1%} of {calibration.num_images}"
        rejection = f"familiarity below {calibration.threshold:.3f}; false alarms on held-out images: {rate}"
    versions = [f"{name} {version}" for name, version in bundle.written_by.items()]
    return {
        "method": ", ".join([method.title, *changed]),
        "network": ", ".join(network),
        "images": f"{spec.size} x {spec.size}, {'grey' if spec.channels == 1 else 'colour'}; mean {mean}, std {std}",
        "memory": f"{spec.memory}: {len(state.exemplars)} exemplars, {len(state.held_out)} held-out images",
        "predicts by": READINGS[state.reading],
        "temperature": f"{calibration.temperature:.3g}",
        "none of these": rejection,
        "written by": ", ".join(versions) + f"; format {FORMAT} {VERSION}",
    }
