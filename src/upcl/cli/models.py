"""Commands for people with photos: a model in one file that learns, names, forgets and remembers its history."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upcl.cli import _console, _split_set, main, report_errors
from upcl.core.errors import UserError

if TYPE_CHECKING:
    from upcl.model.bundle import Bundle, HistoryEntry


_MODEL = click.option("--model", required=True, type=click.Path(path_type=Path), help="The model's file, *.upcl.")
_FILE = click.argument("model", type=click.Path(path_type=Path))


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@_MODEL
@click.option("--method", help="Any of `upcl methods` that needs no number of classes in advance. [upcl]")
@click.option("--epochs", type=click.IntRange(1), help="Passes over the images. [30]")
@click.option("--memory", help="Exemplars kept in the file: 20/class, 2000 or 50MB. [20/class]")
@click.option("--backbone", help="Network by name, or a FILE of ResNet-18/34/50 weights. [by the size of the images]")
@click.option("--frozen", is_flag=True, help="Keep the backbone as it is: only what follows it learns.")
@click.option("--size", type=click.IntRange(8, 1024), help="Pixels that images are brought to. [their own, 64 at most]")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps.")
@click.option("--most-lost", type=float, default=20, show_default=True, help="Points that old classes may lose.")
@click.option(
    "--set", "pairs", multiple=True, metavar="KEY=VALUE", help="A field of the method, or recipe.FIELD; repeat."
)
@report_errors
def learn(
    folder: Path,
    model: Path,
    method: str | None,
    epochs: int | None,
    memory: str | None,
    backbone: str | None,
    frozen: bool,
    size: int | None,
    device: str,
    max_forgetting: float,
    pairs: tuple[str, ...],
) -> None:
    """Learn the photos in FOLDER, whose sub-folders are the classes; the same command with new folders adds classes.

    Old photos are not needed again: some are kept in the file. Stop it at any time: the file stays whole, and the same
    command goes on.

    \b
    upcl learn birds/ --model birds.upcl
    upcl learn more-birds/ --model birds.upcl
    upcl predict --model birds.upcl photo.jpg
    """
    from upcl.cli.rendering import epochs_of, step_table
    from upcl.model.learner import Learner
    from upcl.model.spec import EPOCHS, LearnOptions

    console, learner = _console(), Learner(model, device=device)
    options = dict(_split_set(pairs))
    asked = LearnOptions(method, options, backbone, memory, size, frozen, epochs or EPOCHS, max_forgetting)
    with epochs_of(_console(stderr=True), f"learning {folder}") as watch:
        learner.learn(folder, asked, watch)
    bundle = learner.require_bundle()
    console.print(step_table(bundle))
    for note in learner.notes:
        click.echo(f"note: {note}", err=True)
    _tell(bundle, bundle.history[-1])
    console.print(f"written to {model}", soft_wrap=True, markup=False)


def _tell(bundle: Bundle, step: HistoryEntry) -> None:
    reading = bundle.state.reading
    told = {name: f"{value:.1f} %" for name, value in step.accuracy.items() if value is not None}
    for name, num in step.extra.items():
        click.echo(f"{num} more images of {name}, which it knew already")
    if step.note:
        click.echo(step.note)
    if not told:
        click.echo("no image could be held out, for that a class needs two: how well it does is not known")
    else:
        click.echo(
            f"right on {bundle.state.calibration.num_images} held-out images: {told[reading]} (by its {reading})"
        )


@main.command()
@_MODEL
@click.argument("images", nargs=-1, required=True, metavar="IMAGE|FOLDER|-", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="json is a line of JSON for each image.",
)
@click.option("--top", type=click.IntRange(1), default=3, show_default=True, help="Names for each image.")
@click.option("--device", default="auto", show_default=True)
@report_errors
def predict(model: Path, images: tuple[Path, ...], kind: str, top: int, device: str) -> None:
    """Name what is in images: files, folders, or `-` for standard input: an image, or names of files, a line each.

    Confidence is calibrated on held-out images. "none of these" is said of images unlike anything learned; `upcl info`
    tells how often that is a false alarm. Files that cannot be read are reported, and the command then exits with 1.
    """
    from upcl.model.learner import Learner
    from upcl.model.prediction import list_images, predictions, written

    learner = Learner(model, device=device)
    found = predictions(learner, list_images(images, sys.stdin.buffer), top)
    failed = written(found, kind, _console())
    if kind == "table":
        calibration = learner.require_bundle().state.calibration
        rate = f"{calibration.false_alarm_rate:.1%} of the {calibration.num_images} held-out images of known classes"
        never = "without held-out images confidence is not calibrated, and nothing is said to be none of these"
        click.echo(f'"none of these" was said of {rate}' if calibration.num_images else never, err=True)
    if failed:
        sys.exit(1)


@main.command()
@_FILE
@report_errors
def info(model: Path) -> None:
    """Tell everything about a model: classes, how well it does, what is in the file."""
    from upcl.cli.rendering import model_tables
    from upcl.model.file import load

    for part in model_tables(load(model), model):
        _console().print(part)


@main.command()
@_FILE
@report_errors
def history(model: Path) -> None:
    """List what a model learned when, and how well it did afterwards."""
    from upcl.cli.rendering import history_table
    from upcl.model.file import load

    _console().print(history_table(load(model)))


@main.command()
@_FILE
@click.option("--to", "step", type=int, required=True, help="The step to return to: `upcl history` numbers them.")
@report_errors
def rollback(model: Path, step: int) -> None:
    """Return to an earlier step; what was learned later is removed from the file."""
    from upcl.model.learner import Learner

    learner = Learner(model).rollback(step)
    click.echo(f"{model} is as it was after step {step}: {len(learner.classes)} classes")


@main.command()
@_FILE
@click.option("--class", "name", required=True, help="The class to remove.")
@report_errors
def forget(model: Path, name: str) -> None:
    """Remove a class, its images and its statistics from the file."""
    from upcl.model.learner import Learner

    Learner(model).forget(name)
    click.echo(
        f"{name}: its name, its exemplars, its held-out images, its row of the head and all earlier steps are gone "
        f"from {model}; copies of the file still have them.\nWhat the network's weights learned from its images is "
        "still in them: that cannot be taken out. To be rid of it, learn a new model from the other classes' photos."
    )


@main.command()
@_FILE
@click.option("--onnx", type=click.Path(path_type=Path), help="Write an ONNX file.")
@click.option("--torch", "program", type=click.Path(path_type=Path), help="Write torch's exported program (.pt2).")
@report_errors
def export(model: Path, onnx: Path | None, program: Path | None) -> None:
    """Write a model for other programs: photos in, confidence of each class and familiarity out.

    Photos are uint8 RGB of any size, images x height x width x 3, any number of one size at once. Scaling, cutting and
    normalisation are inside, as `predict` does them; names of classes are in the metadata.
    """
    from upcl.model.export import to_onnx, to_torch
    from upcl.model.learner import Learner

    if not (onnx or program):
        raise UserError("export to what? say --onnx FILE, or --torch FILE")
    for path in (onnx, program):
        if path and (path.suffix == ".upcl" or path.resolve() == model.resolve()):
            raise UserError(f"{path}: an export would overwrite a model, or look like one: choose another name")
    learner = Learner(model, device="cpu")
    for path, write in ((onnx, to_onnx), (program, to_torch)):
        if path:
            write(learner, path)
            click.echo(f"written: {path}")


@main.command()
@_FILE
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen; other hosts ask for a token.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True)
@click.option("--token", help="What callers must send. [none on this machine; made up for other hosts]")
@report_errors
def serve(model: Path, host: str, port: int, token: str | None) -> None:
    """Serve a model over HTTP: a page to drop photos on, and a JSON interface described in /openapi.json.

    \b
    curl -F images=@photo.jpg http://127.0.0.1:8000/api/predict
    """
    import secrets
    import socket

    from upcl.model.learner import Learner

    try:
        import uvicorn

        from upcl.model.server.app import address_of, is_this_machine, make_app
    except ImportError as error:
        raise UserError(f"serving needs {error.name}: pip install -c constraints.txt -e '.[serve]'") from None
    if not is_this_machine(host) and not token:
        token = secrets.token_urlsafe(24)
        click.echo(f"token for callers: {token}")
    app = make_app(Learner(model), token or None)
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UserError(f"cannot listen on {host} port {port}: {error.strerror}. Choose another --port") from None
    click.echo(f"open {address_of(host, listening.getsockname()[1])}   (Ctrl-C stops)")
    config = uvicorn.Config(app, log_level="warning", timeout_keep_alive=15, limit_concurrency=128)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])
