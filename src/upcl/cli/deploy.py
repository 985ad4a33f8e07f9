"""`upcl export`, `upcl serve` and `upcl studio`: use a model in other programs, and teach it on a page."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upcl.core.errors import UserError

from .console import report_errors, stdout_console
from .options import MODEL_FILE, PATH, NonEmptyPath
from .quiet import quiet_export

if TYPE_CHECKING:
    from rich.table import Table
    from starlette.types import ASGIApp

    from upcl.model.learner import Learner


@click.command()
@MODEL_FILE
@click.option("--onnx", type=PATH, help="ONNX file to write.")
@click.option("--torch", "program", type=PATH, help="PyTorch exported program (.pt2) to write.")
@click.option("--quantize", type=click.Choice(["int8"]), help="Compute with 8-bit integers in the ONNX file.")
@click.option(
    "--photos",
    type=NonEmptyPath(path_type=Path, exists=True, file_okay=False),
    help="Folder of labelled photos for --quantize; models that store images need none.",
)
@report_errors()
def export(model: Path, onnx: Path | None, program: Path | None, quantize: str | None, photos: Path | None) -> None:
    """Export a model as ONNX or as a PyTorch program.

    Input: uint8 RGB photos of any size, N x height x width x 3. Output: the confidence of each class (N x C) and the
    familiarity (N). Resizing, cropping and normalisation are part of the graph; class names are in its metadata.
    --quantize int8 makes the file smaller and faster, and prints size, time and accuracy of both.

    \b
    Examples:
      upcl export birds.upcl --onnx birds.onnx
      upcl export birds.upcl --onnx birds.onnx --quantize int8 --photos birds/
      upcl export birds.upcl --torch birds.pt2
    """
    from upcl.model.export import export_onnx, export_torch
    from upcl.model.learner import Learner

    if quantize and not onnx:
        raise UserError("--quantize applies to ONNX: add --onnx FILE")
    if photos and not quantize:
        raise UserError("--photos is for --quantize: add --quantize int8")
    if not (onnx or program):
        raise UserError("no output given: add --onnx FILE or --torch FILE")
    for path in (onnx, program):
        if path and (path.suffix == ".upcl" or path.resolve() == model.resolve()):
            raise UserError(f"{path}: an export must not overwrite a model or be named like one; choose another name")
    learner = Learner(model, device="cpu")
    for path, write in ((onnx, export_onnx), (program, export_torch)):
        if path:
            if quantize and path is onnx:
                stdout_console().print(export_quantized(learner, path, photos))
            else:
                with quiet_export():
                    write(learner, path)
            click.echo(f"written to {path}")


def export_quantized(learner: Learner, path: Path, folder: Path | None) -> Table:
    """Write an 8-bit ONNX file, and compare it with the float model in a table.

    Args:
        learner: the model.
        path: the file to create or replace.
        folder: labelled photos; None if the model stores images.

    Raises:
        UserError: if there are no photos, or a package of the extra `export` is missing.

    Example:
        >>> export_quantized(learner, Path("birds.onnx"), Path("birds"))  # doctest: +SKIP
    """
    import tempfile

    from rich.table import Table

    from upcl.model.export import export_onnx
    from upcl.model.quantize import labelled_photos, measure_onnx, quantize_onnx

    photos = labelled_photos(learner, folder)
    with tempfile.TemporaryDirectory() as temporary, quiet_export():
        exact = Path(temporary) / "float.onnx"
        export_onnx(learner, exact)
        quantize_onnx(exact, path, photos.ranges)
        results = measure_onnx([exact, path], photos)
    table = Table("", title=f"{len(photos.test)} photos, one at a time")
    for title in ("MB", "ms/photo", "accuracy", "points lost"):
        table.add_column(title, justify="right")
    for name, result in zip(("float32", "int8"), results, strict=True):
        lost = f"{results[0].accuracy - result.accuracy:.1f}" if name == "int8" else ""
        table.add_row(name, f"{result.megabytes:.1f}", f"{result.milliseconds:.1f}", f"{result.accuracy:.1f} %", lost)
    return table


def listen_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of commands that listen for requests.

    Args:
        command: the command.

    Example:
        >>> [option.name for option in listen_options(lambda: None).__click_params__]
        ['token_file', 'token', 'port', 'host']
    """
    for option in (
        click.option("--token-file", type=PATH, help="File that holds the token."),
        click.option(
            "--token",
            show_default="$UPCL_TOKEN, else none on this machine, else random",
            help="Bearer token that clients must send; other users of this machine see it in the list of processes.",
        ),
        click.option(
            "--port",
            type=click.IntRange(0, 65535),
            metavar="PORT",
            default=8000,
            show_default=True,
            help="Port to listen on; 0 picks a free one.",
        ),
        click.option(
            "--host",
            default="127.0.0.1",
            show_default=True,
            help="Address to listen on; any but this machine's needs a token.",
        ),
    ):
        command = option(command)
    return command


@click.command()
@MODEL_FILE
@listen_options
@report_errors()
def serve(model: Path, host: str, port: int, token: str | None, token_file: Path | None) -> None:
    """Serve a model over HTTP: a web page and a JSON API.

    The page takes photos by drag and drop; the API is described in /openapi.json. A model that is replaced while it is
    served is read again. To teach a model on a page, use `upcl studio`.

    \b
    Examples:
      upcl serve birds.upcl
      curl -F images=@photo.jpg http://127.0.0.1:8000/api/predict
    """
    from upcl.model.learner import Learner

    def make(chosen: str | None) -> ASGIApp:
        from upcl.model.server.app import make_app

        return make_app(Learner(model), chosen)

    run_server(make, host, port, token, token_file)


@click.command()
@click.argument("model", type=PATH)
@listen_options
@report_errors()
def studio(model: Path, host: str, port: int, token: str | None, token_file: Path | None) -> None:
    """Teach a model on a page: drop, learn, correct, understand.

    MODEL need not exist yet. Photos that are given to the page are kept next to it, in the folder MODEL.photos without
    the suffix .upcl; every change is saved at once. Needs the extras serve and photos.

    \b
    Examples:
      upcl studio birds.upcl
      upcl studio birds.upcl --port 0
    """

    def make(chosen: str | None) -> ASGIApp:
        from upcl.model.server.studio_app import make_studio_app
        from upcl.model.studio.teacher import Teacher

        if model.suffix != ".upcl":
            raise UserError(f"{model} is not named like a model: choose a name such as {model.with_suffix('.upcl')}")
        warnings.simplefilter("ignore", FutureWarning)  # of PyTorch's exporter, about itself
        return make_studio_app(Teacher(model), chosen)

    run_server(make, host, port, token, token_file)


def run_server(
    make: Callable[[str | None], ASGIApp], host: str, port: int, token: str | None, token_file: Path | None
) -> None:
    """Serve an application until Ctrl-C.

    Args:
        make: builds the application for a token.
        host: address to listen on.
        port: port to listen on.
        token: what clients must send.
        token_file: file that holds the token.

    Raises:
        UserError: if an option is wrong, or a package of the extra `serve` is missing.

    Example:
        >>> run_server(make_app, "127.0.0.1", 8000, None, None)  # doctest: +SKIP
    """
    import secrets

    try:
        from upcl.model.server.access import check_token, read_token
        from upcl.model.server.addresses import is_loopback, listen, page_url
        from upcl.model.server.connections import make_server
    except ImportError as error:
        raise UserError(f"serving needs {error.name}: pip install 'upcl[serve]'") from None
    if token and token_file:
        raise UserError("--token and --token-file exclude each other: give one of them")
    chosen = read_token(token_file) if token_file else check_token(token or os.environ.get("UPCL_TOKEN", ""))
    with listen(host, port) as listener:
        address, port = listener.getsockname()[:2]
        made_up = "" if chosen or is_loopback(address) else secrets.token_urlsafe(24)
        server = make_server(make(chosen or made_up or None))
        if made_up:
            click.echo(f"token for clients: {made_up}")
        click.echo(f"open {page_url(host, port)}   (Ctrl-C stops the server)")
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listener])
